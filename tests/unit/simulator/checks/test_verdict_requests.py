"""Requests by HTTP, and how far a run came with each function: what callers saw, and what the headline says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from simulator.report.words import headline, summary
from tests.support.journals import Story, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict


def base() -> Story:
    story = Story(hosts=2)
    story.body("host-1", 0.5, 0.6)
    story.body("host-1", 0.7, 0.8, key_lock("a"))
    return story


def ask(
    story: Story, name: str, *, t: float = 2.0, host: str = "host-1", status: int | None = 200, **more: Any
) -> None:
    """Tell of one request of an unguarded function: sent, run, answered."""
    function = {"name": "page", "trigger": "http", "route": "page"}
    story.add(0.2, host, "function", **function)
    story.add(t, host, "request_sent", request=name, function="page", source="http/page", key="a")
    for number in range(more.get("runs", 1)):
        about = {"function": "page", "invocation": f"{name}-{number}", "request": name}
        story.add(t + 0.1, host, "invocation_started", **about)
        if more.get("outcome", "ok") is not None:
            story.add(t + 0.2, host, "invocation_ended", **about, outcome=more.get("outcome", "ok"))
    if "served" in more:
        story.add(t + 0.3, host, "request_served", request=name, status=more["served"])
    if status is not None:
        story.add(t + 0.4, host, "request_answered", request=name, status=status, seconds=0.4)
    elif "error" in more:
        story.add(t + 0.4, host, "request_failed", request=name, error=more["error"], seconds=0.4)


def violations(story: Story) -> tuple[str, ...]:
    return judge(story.end(30)).violations


def test_a_request_of_the_users_that_no_host_was_up_for_is_not_lost() -> None:
    story = base()
    story.fleet(1.0, "request_held", request="r1", function="page", source="http/page", key="")
    story.fleet(1.0, "request_held", request="r2", function="page", source="http/page", key="")
    ask(story, "r2", served=200)
    verdict = judge(story.end(30))
    assert (verdict.requests.sent, verdict.requests.answered, verdict.requests.unsent) == (1, 1, 1)
    assert (verdict.verdict, verdict.violations) == ("unproven", ())
    assert "1 request of 'page' never sent: no host was up to answer" in verdict.reasons
    assert "2 requests by HTTP: 1 with 200, 1 never sent" in told(verdict)


def test_requests_that_were_answered_are_counted_by_their_status() -> None:
    story = base()
    ask(story, "r1", served=200)
    ask(story, "r2", status=404, served=404)
    ask(story, "r3", status=500, served=500, outcome="error")
    verdict = judge(story.end(30))
    assert verdict.violations == ()
    requests = verdict.to_dict()["requests"]
    assert (requests["sent"], requests["answered"], requests["refused"], requests["failed"]) == (3, 3, 1, 1)
    assert (requests["statuses"], requests["longest"]) == ({"200": 1, "404": 1, "500": 1}, 0.4)
    assert "3 requests by HTTP: 1 with 200, 1 with 404, 1 with 500; the slowest took 0.4 s" in told(verdict)


def test_a_function_that_refuses_all_is_noted() -> None:
    said = "'page' refused all its requests (2 with 404): give others with --messages FILE"
    story = base()
    ask(story, "r1", status=404, served=404)
    ask(story, "r2", status=404, served=404)
    assert said in judge(story.end(30)).notes
    ask(story, "r3", served=200)
    assert not any("refused all" in note for note in judge(story.end(30)).notes)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"runs": 2}, "1 request of 'page' ran in two invocations"),
        ({"runs": 0}, "1 request of 'page' answered without an invocation"),
        ({"served": 201}, "1 request of 'page' answered with another status than the function's"),
        ({"outcome": "error"}, "1 request of 'page' answered as a success although the invocation had failed"),
        ({"status": 500}, "1 request of 'page' answered as a failure although the invocation had succeeded"),
        (
            {"status": None, "error": "ServerDisconnectedError: gone"},
            "1 request of 'page' got no answer although the host lived: ServerDisconnectedError: gone",
        ),
    ],
)
def test_what_no_caller_may_see_is_a_violation(more: dict[str, Any], sentence: str) -> None:
    story = base()
    ask(story, "r1", **more)
    assert violations(story) == (sentence,)


def test_a_host_that_stops_may_refuse_a_request_without_running_it() -> None:
    story = base()
    ask(story, "r1", runs=0, status=503)
    assert violations(story) == ()


def test_a_caller_whose_host_died_or_stood_still_or_stopped_may_get_no_answer() -> None:
    for how in ("kill", "pause", "exit"):
        story = base()
        ask(story, "r1", host="host-2", outcome=None, status=None, error="ServerDisconnectedError: gone")
        if how == "kill":
            story.add(2.2, "host-2", "kill", pid=102, holds=[])
        elif how == "pause":
            story.add(2.2, "host-2", "pause", holds=[])
            story.add(20, "host-2", "resume")
        else:
            story.add(2.2, "host-2", "host_exited", code=0, expected=True)
        verdict = judge(story.end(30))
        assert verdict.violations == (), how
        assert (verdict.requests.cut, verdict.requests.unanswered) == (1, 0)


@pytest.mark.parametrize("how", ["kill", "host_stopping", "host_exited"])
def test_the_end_of_a_host_excuses_no_request_that_failed_before(how: str) -> None:
    story = base()
    ask(story, "r1", host="host-2", status=None, error="ServerDisconnectedError: gone")
    story.add(9, "host-2", how, **({"pid": 102, "holds": []} if how == "kill" else {"expected": True}))
    verdict = judge(story.end(30))
    assert [reason for reason in verdict.violations if "page" in reason] == [
        "1 request of 'page' got no answer although the host lived: ServerDisconnectedError: gone"
    ]
    assert (verdict.requests.cut, verdict.requests.unanswered) == (0, 1)


def test_the_end_of_a_host_excuses_no_request_that_it_should_have_answered_long_before() -> None:
    story = base()
    ask(story, "r1", host="host-2", status=None)
    story.add(28, "host-2", "host_stopping")
    story.add(28.1, "host-2", "request_failed", request="r1", error="ServerDisconnectedError: gone", seconds=26.1)
    assert len(violations(story)) == 1


def test_a_request_that_waits_at_the_end_proves_nothing() -> None:
    story = base()
    ask(story, "r1", outcome=None, status=None)
    verdict = judge(story.end(30))
    assert verdict.verdict == "unproven"
    assert "1 request not answered when the run ended" in verdict.reasons


def test_a_message_that_its_host_let_go_may_run_again_at_the_same_time() -> None:
    story = base()
    story.know(queue="servicebus/orders")
    for told in (False, True):
        name = f"m-{told}"
        story.fleet(3, "message_sent", queue="servicebus/orders", id=name, key="a")
        about = {"queue": "servicebus/orders", "id": name, "function": "ship"}
        for host, start in (("host-1", 4.0), ("host-2", 24.0)):
            story.add(start - 0.1, host, "message_received", **about, dequeue_count=1)
            story.body(host, start, 28.0, key_lock(f"{host}{name}"), message=name)
        story.add(28.1, "host-2", "message_completed", **about)
        if told:
            story.add(20.0, "host-1", "message_let_go", **about)
    troubles = judge(story.end(30)).messages.troubles
    assert {trouble.id for trouble in troubles} == {"m-False"}


def test_a_message_that_fails_too_often_is_dead_lettered_by_its_function() -> None:
    story = base()
    story.know(queue="servicebus/orders")
    story.fleet(3, "message_sent", queue="servicebus/orders", id="m", key="a")
    about = {"queue": "servicebus/orders", "id": "m", "function": "ship"}
    story.add(4, "host-1", "message_received", **about, dequeue_count=1)
    story.body("host-1", 4.1, 4.2, key_lock("a"), message="m", outcome="error")
    story.add(4.3, "host-1", "message_poisoned", **about, poison="servicebus/orders/$deadletterqueue")
    story.fleet(29, "queue_left", queue="servicebus/orders", ids=[], invisible=0)
    verdict = judge(story.end(30))
    assert verdict.messages.poisoned == 1
    assert "1 message dead-lettered from 'servicebus/orders' by its function's own errors (ValueError)" in verdict.notes


def test_a_message_that_is_left_with_the_broker_is_stuck() -> None:
    story = base()
    story.know(queue="eventHub/ship")
    story.fleet(3, "message_sent", queue="eventHub/ship", id="m", key="a")
    story.fleet(29, "queue_left", queue="eventHub/ship", ids=["m"], invisible=0)
    assert "1 message stuck: still in the queue at the end" in violations(story)


# --- what was exercised -----------------------------------------------------------------------------------------------


def told(verdict: Verdict) -> str:
    return "\n".join(line.text for line in (headline(verdict), *summary(verdict)))


def with_functions(**functions: dict[str, Any]) -> Verdict:
    story = base()
    for name, fields in functions.items():
        story.add(0.2, "host-1", "function", name=name, **fields)
    return judge(story.end(30))


def test_the_headline_counts_the_functions_and_names_those_that_were_not_exercised() -> None:
    verdict = with_functions(
        hub={"trigger": "eventHub", "how": "delivered", "guarded": True},
        page={"trigger": "http", "route": "page"},
        off={"trigger": "queue", "idle": "it is disabled by an app setting"},
    )
    assert headline(verdict).mark == "open"
    assert headline(verdict).text.startswith("HOLDS for 2 of 5 functions; not exercised: hub, off, page; not tried: ")
    assert "hub never ran" not in headline(verdict).text
    reports = {function["name"]: function for function in verdict.to_dict()["functions"]}
    assert {name: report["how"] for name, report in reports.items()} == {
        "hub": "not exercised",
        "import_eligibility": "simulated",
        "off": "not exercised",
        "page": "not exercised",
        "ship": "simulated",
    }
    assert (reports["ship"]["exercised"], reports["ship"]["why"]) == (True, "")
    assert reports["off"]["why"] == "it is disabled by an app setting"
    assert "--messages FILE" in reports["hub"]["why"]
    assert "not exercised: hub (eventHub): nothing was delivered to it" in told(verdict)


def test_a_function_that_was_only_delivered_to_is_called_so() -> None:
    story = base()
    story.add(0.2, "host-1", "function", name="hub", trigger="eventHub", how="delivered")
    about = {"function": "hub", "invocation": "i"}
    story.add(2, "host-1", "invocation_started", **about)
    story.add(2.1, "host-1", "invocation_ended", **about, outcome="ok")
    verdict = judge(story.end(30))
    assert "delivered, not simulated: hub." in headline(verdict).text
    assert "HOLDS for" not in headline(verdict).text
    assert "without @singleton, and not judged: hub" in told(verdict)


def test_a_guarded_function_whose_body_never_ran_was_not_exercised_however_often_it_was_invoked() -> None:
    story = base()
    story.add(0.2, "host-1", "function", name="skips", trigger="http", route="skips", guarded=True)
    about = {"function": "skips", "invocation": "i"}
    story.add(2, "host-1", "invocation_started", **about)
    story.add(2.1, "host-1", "invocation_ended", **about, outcome="error", error="ConfigurationError: no", blames="x")
    (report,) = [each for each in judge(story.end(30)).functions if each.name == "skips"]
    assert (report.exercised, report.why) == (
        False,
        "its body never ran: 1 invocation ended before it with ConfigurationError",
    )
