"""What a holder keeps is what the next one reads: the state of a lock, and the results of ``once``."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.journal import UNSEEN
from tests.support.journals import Story, key_lock

A, B = key_lock("a"), key_lock("b")
NUMBERS = "locks/shared/numbers"
_numbers = count(1)


def use(story: Story, host: str, start: float, end: float | None, *, error: str = "", **about: Any) -> None:
    """Tell of a use of a pattern: from ``start`` to ``end``, or to no end."""
    number = str(next(_numbers))
    found: dict[str, Any] = {
        name: about.pop(name) for name in ("digest", "default") if about.get("what") == "read" and name in about
    }
    story.add(start, host, "pattern_asked", number=number, **about)
    if end is not None:
        story.add(end, host, "pattern_answered", number=number, **({"error": error} if error else found))


def read(story: Story, host: str, t: float, digest: str, *, lock: str = NUMBERS, default: str = "none") -> None:
    about: dict[str, Any] = {"of": "hold.state", "what": "read", "name": lock, "digest": digest, "default": default}
    use(story, host, t, t + 0.01, **about)


def write(
    story: Story, host: str, t: float, digest: str, *, lock: str = NUMBERS, end: float | None = 0.01, error: str = ""
) -> None:
    about: dict[str, Any] = {"of": "hold.state", "what": "write", "name": lock, "digest": digest}
    use(story, host, t, None if end is None else t + end, error=error, **about)


def violations(story: Story) -> tuple[str, ...]:
    return judge(story.end(60)).violations


def fresh() -> Story:
    story = Story(fresh=True)
    story.body("host-3", 1, 2, token=1)
    return story


def test_what_was_written_is_read_by_every_later_holder_and_shows_it() -> None:
    story = fresh()
    read(story, "host-1", 2, "none")
    write(story, "host-1", 3, "one")
    read(story, "host-2", 4, "one")
    write(story, "host-2", 5, "two")
    read(story, "host-1", 6, "two")
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    assert not any("not judged" in each for each in verdict.untried)
    check = next(check for check in verdict.checks if check.name == "kept")
    assert check.looked_at == {"uses of hold.state and once": 5}


def test_a_write_that_was_dropped_is_found() -> None:
    story = fresh()
    write(story, "host-1", 3, "one")
    read(story, "host-2", 4, "none")
    (told,) = violations(story)
    gone = "hold.state of 'numbers': a value that was kept is gone"
    assert told == f"{gone}: host-2 at 4.0 s, though host-1 had written one at 3.0 s"


def test_a_value_that_was_replaced_and_is_read_again_is_found() -> None:
    story = fresh()
    write(story, "host-1", 3, "one")
    write(story, "host-2", 4, "two")
    read(story, "host-1", 5, "one")
    (told,) = violations(story)
    assert told == (
        "hold.state of 'numbers': an older value was read: host-1 at 5.0 s read the value that host-1 had written at "
        "3.0 s, though host-2 had written another at 4.0 s"
    )


def test_the_state_of_another_lock_is_found() -> None:
    story = fresh()
    write(story, "host-1", 3, "one", lock=B)
    read(story, "host-2", 4, "one", lock=A)
    (told,) = violations(story)
    assert told == (
        "hold.state of 'ship.a': a value of another key was read: host-2 at 4.0 s read, for 'ship.a', what was kept "
        "for 'ship.b'"
    )


def test_a_value_that_nobody_has_written_is_found_unless_the_storage_was_used_before() -> None:
    def told(story: Story) -> Any:
        story.body("host-3", 1, 2, token=1)
        read(story, "host-1", 3, "seven")
        return judge(story.end(60))

    assert told(Story(fresh=True)).violations == (
        "hold.state of 'numbers': a value was read that nobody had written: host-1 at 3.0 s, for 'numbers'",
    )
    old = told(Story())
    assert old.violations == ()
    assert any("1 value was in the storage before this run" in text for text in old.notes)


@pytest.mark.parametrize("seen", ["one", "two"])
@pytest.mark.parametrize("error", ["", "StorageUnavailable", "LockLost"])
def test_nobody_knows_of_a_write_without_an_answer(seen: str, error: str) -> None:
    story = fresh()
    write(story, "host-1", 3, "one")
    write(story, "host-1", 4, "two", end=1 if error else None, error=error)
    if not error:
        story.kill(4.2, "host-1", A)
    read(story, "host-2", 25, seen)
    read(story, "host-3", 26, seen)
    assert not any("hold.state" in text for text in violations(story))


def test_what_was_read_after_a_write_without_an_answer_stays() -> None:
    story = fresh()
    write(story, "host-1", 3, "one")
    write(story, "host-1", 4, "two", end=1, error="StorageUnavailable")
    read(story, "host-2", 25, "two")
    read(story, "host-3", 26, "one")
    assert any("an older value was read: host-3 at 26.0 s" in text for text in violations(story))


def test_a_lock_with_two_names_keeps_one_state() -> None:
    story = fresh()
    for host, name, start in (("host-1", A, 3.0), ("host-2", B, 8.0)):
        owner = f"{host} asks"
        story.body(host, start, start + 2, name, token=int(start), owner=owner, keys={"function": "a"})
    write(story, "host-1", 4, "one", lock=A)
    read(story, "host-2", 9, "none", lock=B)
    assert any("hold.state of 'ship': a value that was kept is gone" in text for text in violations(story))


@pytest.mark.parametrize(("lock", "invocation", "told"), [(A, "one", 0), (B, "one", 1), (B, "", 0), (B, "two", 0)])
def test_the_state_of_another_invocations_lock_is_told(lock: str, invocation: str, told: int) -> None:
    story = fresh()
    for owner, own in (("one", A), ("two", B)):
        story.body("host-1", 3, 8, own, owner=owner)
    about = {"of": "hold.state", "what": "read", "name": lock, "digest": "none", "default": "none"}
    use(story, "host-1", 4, 5, invocation=invocation, **about)
    text = "1 use of hold.state by 'ship' went to the lock of another invocation: not judged, as the app may hand"
    assert sum(text in reason for reason in judge(story.end(60)).reasons) == told


def test_a_hold_that_is_handed_on_in_its_process_is_that_of_the_invocation_that_asks() -> None:
    story = fresh()
    story.body("host-1", 3, 8, A, owner="one")
    story.body("host-1", 7.9, 9, A, owner="two")  # told before the release of the hold before it
    use(story, "host-1", 7.95, 8.5, of="hold.state", what="write", name=A, digest="x", invocation="two")
    assert not any("another invocation" in text for text in judge(story.end(60)).reasons)


def test_state_that_nobody_reads_again_is_said_to_be_unjudged() -> None:
    story = fresh()
    read(story, "host-1", 2, "none")
    write(story, "host-1", 3, "one")
    assert "hold.state of 'numbers' was not judged: nothing was read after a write" in judge(story.end(60)).untried


def operation(
    story: Story,
    host: str,
    start: float,
    key: str,
    answer: str | None,
    *,
    body: str | None = None,
    outcome: str = "ok",
    given: str | None = None,
    out: tuple[str, str] | None = None,
) -> None:
    """Tell of an invocation under ``@once``; ``body``: the digest of what its body gave, if there was one.

    ``given``: of what `@once` was given, if that is told. ``out``: of the output then, and as it is handed on.
    """
    name = f"{host} {start}"
    about = {"function": "charge", "invocation": name}
    story.add(start, host, "invocation_started", **about)
    story.add(start, host, "expected", invocation=name, keys={"once": f'["once", "charge", "{key}"]'})
    if body is not None:
        story.sight(host, start + 0.1, start + 0.5, invocation=name, function="charge", digest=body)
    outs = [{} if out is None else {"outputs": {"out": each}} for each in out or ("", "")]
    if given is not None:
        story.add(start + 0.5, host, "once_kept", invocation=name, digest=given, **outs[0])
    if answer is not None:
        story.add(start + 0.6, host, "once_answered", invocation=name, digest=answer, **outs[1])
    blames = {"error": "LockLost: gone", "blames": "LockLost"} if outcome != "ok" else {}
    story.add(start + 0.7, host, "invocation_ended", **about, outcome=outcome, **blames)


def with_charge() -> Story:
    story = fresh()
    story.add(0.2, "host-1", "function", name="charge", trigger="queue", queue="orders", once=True, keep=3600.0)
    return story


def test_a_repeat_gets_the_result_of_the_body_and_runs_none() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid")
    operation(story, "host-2", 5, "a", "paid")
    operation(story, "host-2", 6, "b", "paid too", body="paid too")
    assert violations(story) == ()


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("mail", None),
        ("", "a value that was kept is gone: host-2 at 6.7 s, though host-1 had written one at 3.7 s"),
        ("mail b", "a value of another key was read: host-2 at 6.7 s read, for 'a', what was kept for 'b'"),
        (
            "paid",
            "a value was read that nobody had written: host-2 at 6.7 s, for 'a', though host-1 had written another",
        ),
    ],
)
def test_a_repeat_sets_the_outputs_that_the_body_had_set(out: str, told: str | None) -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid", given="paid", out=("mail", "mail"))
    operation(story, "host-1", 4, "b", "paid", body="paid", given="paid", out=("mail b", "mail b"))
    operation(story, "host-1", 5, "c", "paid", body="paid", given="paid", out=("", ""))
    operation(story, "host-2", 6, "a", "paid", out=("", out))
    operation(story, "host-2", 7, "c", "paid", out=("", ""))
    found = [text for text in violations(story) if "@once" in text]
    assert len(found) == (told is not None)
    assert told is None or f"output 'out' of @once of 'charge': {told}" in found[0]


def test_a_repeat_that_waited_for_the_body_sets_its_outputs_too() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid", given="paid", out=("mail", "mail"))
    operation(story, "host-2", 3.2, "a", "paid", out=("", ""))
    assert any("output 'out' of @once of 'charge': a value that was kept is gone" in text for text in violations(story))


def test_what_decorators_below_and_above_once_make_of_a_result_is_their_own_business() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "as json", body="paid", given="as json")
    operation(story, "host-2", 5, "a", "as json")
    assert violations(story) == ()


@pytest.mark.parametrize(("answer", "judged"), [("paid", True), (None, False)])
def test_a_repeat_that_waited_for_the_writer_shows_what_is_kept_if_it_got_an_answer(
    answer: str | None, *, judged: bool
) -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid")
    operation(story, "host-2", 3.2, "a", answer)
    verdict = judge(story.end(60))
    assert verdict.violations == ()
    untold = "@once of 'charge' was not judged: nothing was read after a write"
    assert (untold in verdict.untried) is not judged


def test_a_second_body_after_a_kept_result_is_found() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid")
    operation(story, "host-2", 5, "a", "paid again", body="paid again")
    assert any(
        "@once of 'charge': a body ran again after its result was kept: host-2 at 5.1 s" in text
        for text in violations(story)
    )


@pytest.mark.parametrize(("released", "found"), [(3.55, True), (None, False)])
def test_a_result_is_kept_when_its_lock_is_given_back_though_its_invocation_goes_on(
    released: float | None, *, found: bool
) -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "paid", body="paid")
    if released is not None:
        for t, kind in ((3.05, "acquired"), (released, "released")):
            story.lock(t, "host-1", kind, "once/charge/a", "host-1 3")
    operation(story, "host-1", 3.5, "a", "paid again", body="paid again")
    assert any("a body ran again after its result was kept" in text for text in violations(story)) is found


def test_a_body_whose_result_was_not_kept_runs_again() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", None, body="paid", outcome="error")
    operation(story, "host-2", 25, "a", "paid again", body="paid again")
    assert not any("@once" in text for text in violations(story))


def test_a_body_runs_again_when_its_result_was_kept_for_long_enough() -> None:
    story = with_charge()
    story.records[-1].fields["keep"] = 10.0  # type: ignore[index]
    operation(story, "host-1", 3, "a", "paid", body="paid")
    operation(story, "host-2", 25, "a", "paid again", body="paid again")
    assert violations(story) == ()


def test_a_result_that_is_answered_after_its_end_is_found_also_by_the_second_repeat() -> None:
    story = with_charge()
    story.records[-1].fields["keep"] = 10.0  # type: ignore[index]
    operation(story, "host-1", 3, "a", "paid", body="paid")
    operation(story, "host-2", 16, "a", "paid")
    assert violations(story) == ()
    operation(story, "host-2", 25, "a", "paid")
    (text,) = violations(story)
    assert text == (
        "@once of 'charge': a result was still there after its end: host-2 at 25.7 s got what host-1 had kept at 3.7 s "
        "for 10 s"
    )


def test_a_new_result_is_answered_though_an_equal_one_has_ended() -> None:
    story = with_charge()
    story.records[-1].fields["keep"] = 10.0  # type: ignore[index]
    for start in (3, 20):
        operation(story, "host-1", start, "a", "paid", body="paid")
    operation(story, "host-2", 25, "a", "paid")
    assert violations(story) == ()


@pytest.mark.parametrize(
    ("seconds", "old", "told"),
    [
        (3600, None, False),
        (3597, None, False),
        (3603, None, False),
        (60, None, True),
        (216_000, None, True),
        pytest.param(-9.9, -7.9, False, id="the end that stood there"),
        pytest.param(-9.9, -3.9, True, id="another end than stood there"),
    ],
)
def test_a_result_is_written_with_its_end(seconds: float, old: float | None, told: bool) -> None:
    story = with_charge()
    lock = "once/shared/charge/a"
    if old is not None:
        story.lock(1, "host-2", "acquired", lock, "host-2 1", function="charge", mode="function")
        story.add(1.5, "host-2", "result_kept", blob=f"/account/container/{lock}", seconds=old)
        story.lock(2, "host-2", "released", lock, "host-2 1", function="charge", mode="function")
    operation(story, "host-1", 3, "a", "paid", body="paid")
    for t, kind in ((3.05, "acquired"), (3.6, "released")):
        story.lock(t, "host-1", kind, lock, "host-1 3", function="charge", mode="function")
    story.add(3.5, "host-1", "result_kept", blob=f"/account/container/{lock}", seconds=seconds)
    text = (
        "@once of 'charge': 1 result written to end at another time than after keep=3600 s: the first: host-1 wrote "
        f"one for {seconds:g} s at 3.5 s"
    )
    assert [text in violations(story), text.partition(":")[0] in str(violations(story))] == [told, told]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ("of b", "a value of another key was read: host-2 at 5.7 s read, for 'a', what was kept for 'b'"),
        ("of nobody", "a value was read that nobody had written: host-2 at 5.7 s, for 'a'"),
    ],
)
def test_an_answer_that_no_body_of_the_key_has_given_is_found(answer: str, what: str) -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "of a", body="of a")
    operation(story, "host-1", 4, "b", "of b", body="of b")
    operation(story, "host-2", 5, "a", answer)
    assert any(f"@once of 'charge': {what}" in text for text in violations(story))


def test_a_call_that_was_skipped_under_once_has_answered_nothing() -> None:
    story = with_charge()
    operation(story, "host-1", 3, "a", "none")
    story.lock(3.1, "host-1", "contended", "locks/shared/charge", "host-1 3", function="charge", reason="skip")
    operation(story, "host-2", 5, "a", "paid", body="paid")
    assert not any("@once" in text for text in violations(story))


def test_a_key_that_is_not_read_is_said_to_be_unjudged() -> None:
    story = with_charge()
    story.add(3, "host-1", "invocation_started", function="charge", invocation="one")
    story.add(4, "host-1", "invocation_ended", function="charge", invocation="one", outcome="ok")
    assert "@once of 'charge' was not judged: its key is not read here" in judge(story.end(60)).untried


def block(story: Story, host: str, t: float, found: str, *, finishes: str = "", where: str = "") -> None:
    about: dict[str, Any] = {"of": "once", "name": "once/charge/7", "key": "7", "where": where}
    use(story, host, t, t + 0.1, what="read", digest=found, **about)
    if finishes:
        use(story, host, t + 0.2, t + 0.3, what="write", digest=finishes, keep=3600.0, **about)


def test_a_block_of_once_is_judged_as_a_function_is() -> None:
    story = fresh()
    block(story, "host-1", 3, "", finishes="paid")
    block(story, "host-2", 4, "paid")
    assert violations(story) == ()
    story = fresh()
    block(story, "host-1", 3, "", finishes="paid")
    block(story, "host-2", 4, "", finishes="paid again")
    assert any("a body ran again after its result was kept: host-2 at 4.1 s" in text for text in violations(story))


def test_blocks_of_one_name_in_two_containers_keep_two_results() -> None:
    story = fresh()
    block(story, "host-1", 3, "", finishes="paid", where="first")
    block(story, "host-2", 4, "", finishes="paid twice", where="second")
    block(story, "host-1", 5, "paid", where="first")
    assert violations(story) == ()
    block(story, "host-1", 6, "paid", where="second")
    assert any("an older value was read" in text or "another key" in text for text in violations(story))


@pytest.mark.parametrize("action", ["delete", "break"])
def test_after_an_operator_has_deleted_the_blob_nothing_is_there_until_the_next_write(action: str) -> None:
    story = fresh()
    write(story, "host-1", 3, "one")
    story.fleet(4, "operator", lock=NUMBERS, action=action)
    read(story, "host-2", 5, "none")
    gone = any("a value that was kept is gone" in text for text in violations(story))
    assert gone == (action == "break")
    write(story, "host-1", 6, "two")
    read(story, "host-2", 7, "none")
    assert any("a value that was kept is gone" in text for text in violations(story))


@pytest.mark.parametrize(("lease", "accused"), [("00000000", False), ("mine", True)])
def test_after_the_app_has_deleted_the_blob_nothing_is_there_and_the_verdict_says_so(
    lease: str, *, accused: bool
) -> None:
    story = fresh()
    story.lease(2.5, "host-1", "acquire", NUMBERS, status=201, lease="one", period=15)
    write(story, "host-1", 3, "one")
    story.lease(4, "host-1", "delete", NUMBERS, status=202, lease=lease)
    story.add(4.9, "host-2", "blob_made", blob=f"/account/container/{NUMBERS}", status=201, took=0.1)
    read(story, "host-2", 5, "none")
    verdict = judge(story.end(60))
    assert any("a value that was kept is gone" in text for text in verdict.violations) == accused
    notes = [each.text for check in verdict.checks for each in check.findings if each.kind == "note"]
    said = "somebody deleted the blob of numbers, after second 4.8: that is not judged"
    assert (said in notes) != accused


@pytest.mark.parametrize("starts", [True, False])
def test_what_a_process_of_the_app_may_have_written_is_not_judged(*, starts: bool) -> None:
    story = fresh()
    if starts:
        story.add(2.5, "host-1", "note", message=UNSEEN)
    write(story, "host-1", 3, "one")
    read(story, "host-2", 5, "strange")
    findings = [each for check in judge(story.end(60)).checks for each in check.findings]
    (found,) = (each for each in findings if "a value was read that nobody had written" in each.text)
    assert found.kind == ("unproven" if starts else "violation")
    assert (UNSEEN in found.text) == starts


def test_an_accusation_names_a_write_that_was_over_before_the_read() -> None:
    story = Story()
    write(story, "host-1", 1, "a")
    write(story, "host-2", 3, "b")
    write(story, "host-1", 4.99, "c", end=1)
    read(story, "host-2", 5, "a")
    assert ["though host-2 had written another" in each for each in violations(story)] == [True]
