"""Several apps in one run: whose locks are different blobs is told, with the cause, and what to set."""

from __future__ import annotations

from typing import Any

from simulator.checks.verdict import judge
from simulator.report.words import SHARED, headline, summary
from tests.support.journals import TIMER, Story, key_lock

NORTH, SOUTH = "locks/shop-north/import_eligibility", "locks/shop-south/import_eligibility"


def site(name: str, lock_id: str, *hosts: str) -> dict[str, Any]:
    return {"name": name, "lock_id": lock_id, "cause": f"WEBSITE_SITE_NAME {name!r}", "hosts": [*hosts]}


def regions(*ids: str) -> Story:
    """Tell of two hosts, each a site of its own."""
    names = ("shop-north", "shop-south")
    return Story(2, sites=[site(name, ids[at], f"host-{at + 1}") for at, name in enumerate(names)], same_app=True)


def test_two_inside_at_once_under_the_ids_of_two_apps_is_told_with_the_cause_and_the_remedy() -> None:
    story = regions("shop-north", "shop-south")
    story.body("host-1", 1.0, 2.0, NORTH, token=1)
    story.body("host-2", 1.5, 3.0, SOUTH, token=1)
    story.body("host-1", 5.0, 7.0, NORTH, token=2)
    story.body("host-2", 5.5, 6.5, SOUTH, token=2)
    verdict = judge(story.end(10))
    (reason,) = verdict.violations
    assert reason.startswith(
        "2 overlaps of 'import_eligibility' between apps: host-1 (shop-north) and host-2 (shop-south) were both inside "
        "import_eligibility for 1.00 s at 5.5 s. Each lock did its work, but in Azure they are two blobs: host id "
        "'shop-north' (WEBSITE_SITE_NAME 'shop-north') and host id 'shop-south' (WEBSITE_SITE_NAME 'shop-south')"
    )
    assert "set one hostId in the section singleton of each app's host.json" in reason
    assert headline(verdict).text == "VIOLATED: two were inside at once, as their apps have different host ids."
    assert verdict.overlaps == ()
    assert summary(verdict)[0].text == "2 hosts, instances of 2 apps"
    assert next(check for check in verdict.checks if check.name == "sites").looked_at["apps"] == 2


def test_a_host_that_was_started_again_is_still_of_its_app() -> None:
    story = regions("shop-north", "shop-south")
    story.add(0.5, "host-1.2", "host_restarted", after="host-1")
    story.body("host-1.2", 1.0, 2.0, NORTH, token=1)
    story.body("host-2", 1.5, 3.0, SOUTH, token=1)
    (reason,) = judge(story.end(10)).violations
    assert "host-1.2 (shop-north) and host-2 (shop-south)" in reason


def test_who_was_never_inside_at_once_by_chance_is_unproven() -> None:
    story = regions("shop-north", "shop-south")
    story.body("host-1", 1.0, 2.0, NORTH, token=1)
    story.body("host-2", 2.0, 3.0, SOUTH, token=1)
    verdict = judge(story.end(10))
    assert verdict.violations == ()
    assert verdict.verdict == "unproven"
    (reason,) = (reason for reason in verdict.reasons if "apart" in reason)
    assert reason.startswith(
        "nothing keeps import_eligibility of shop-north and of shop-south apart, though they were not inside at once"
    )


def test_apps_that_share_their_id_and_keys_that_no_two_apps_have_are_fine() -> None:
    story = regions("shop", "shop")
    story.body("host-1", 1.0, 2.0, TIMER, token=1)
    story.body("host-2", 2.0, 3.0, TIMER, token=2)
    assert "unproven" not in {finding.kind for check in judge(story.end(10)).checks for finding in check.findings}
    story = regions("shop-north", "shop-south")
    story.body("host-1", 1.0, 2.0, key_lock("a").replace("shared", "shop-north"), token=1)
    story.body("host-2", 1.0, 2.0, key_lock("b").replace("shared", "shop-south"), token=1)
    assert not next(check for check in judge(story.end(10)).checks if check.name == "sites").findings


def test_a_limit_is_passed_by_all_apps_together() -> None:
    story = regions("shop-north", "shop-south").know(at_once=2, several=True)
    for at, (host, lock) in enumerate([("host-1", NORTH), ("host-2", SOUTH), ("host-2", SOUTH)]):
        story.body(host, 1.0 + at, 5.0, f"{lock}/slot-{at}")
        (finding,) = next(check for check in judge(story.end(10)).checks if check.name == "sites").findings or [None]
        assert finding is None or finding.kind == ("violation" if at == 2 else "unproven")
        story.records.pop()


def test_a_run_of_one_folder_says_once_that_its_lock_id_was_made_up() -> None:
    def told(**setup: Any) -> str:
        story = Story(2, **setup)
        story.body("host-1", 1.0, 2.0, token=1)
        story.body("host-2", 2.0, 3.0, token=2)
        verdict = judge(story.end(10))
        return "\n".join([headline(verdict).text, *(line.text for line in summary(verdict))])

    assert told(shared_id=True).splitlines()[0].count(SHARED) == told(shared_id=True).count(SHARED) == 1
    assert "set hostId for slots, regions and other apps" in SHARED
    assert SHARED not in told()
    assert SHARED not in told(shared_id=True, singleton=False)
