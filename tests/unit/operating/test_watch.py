"""What can be seen of locks from one look to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from singleton.base.holder_record import Holder
from singleton.operating.locks import LockInfo, Watch, _is_older


def lock(name: str, etag: str, stamped: float, *, held: bool) -> LockInfo:
    last = Holder(lock=name)
    return LockInfo(
        name=name,
        state="leased" if held else "available",
        holder=last if held else None,
        last=last,
        modified=datetime.fromtimestamp(stamped, UTC),
        etag=etag,
    )


def seen(watch: Watch, at: float, *locks: LockInfo) -> list[tuple[str, str]]:
    return [(sight.what, sight.lock.name) for sight in watch.look(locks, at)]


def test_the_first_look_tells_who_has_what_and_nothing_of_free_locks() -> None:
    watch = Watch()
    assert seen(watch, 1000, lock("a", "1", 10, held=True), lock("b", "1", 999, held=False)) == [("holds", "a")]
    assert seen(watch, 1002, lock("a", "1", 10, held=True), lock("b", "1", 999, held=False)) == []


def test_a_lock_that_goes_from_one_to_the_next_is_got_and_one_that_ends_is_free() -> None:
    watch = Watch()
    seen(watch, 1000, lock("a", "1", 10, held=True))
    assert seen(watch, 1002, lock("a", "2", 1001, held=True)) == [("got", "a")]
    assert seen(watch, 1004, lock("a", "2", 1001, held=False)) == [("free", "a")]
    assert seen(watch, 1006, lock("a", "2", 1001, held=False)) == []
    assert seen(watch, 1008, lock("a", "2", 1001, held=True)) == [("got", "a")], "without a stamp"


def test_a_lock_that_was_taken_and_given_back_between_two_looks_is_told_once() -> None:
    watch = Watch()
    seen(watch, 1000)
    assert seen(watch, 1002, lock("a", "1", 1001, held=False)) == [("passed", "a")]
    for at in (1004, 1006, 1012, 1020, 1100):
        assert seen(watch, at, lock("a", "1", 1001, held=False)) == [], at
    assert seen(watch, 1102, lock("a", "2", 1101, held=False)) == [("passed", "a")]


def test_what_nobody_uses_is_not_remembered() -> None:
    watch = Watch()
    seen(watch, 1000, *(lock(str(number), "1", 10, held=False) for number in range(1000)))
    assert watch._known == {}


def of(owner: str, etag: str, stamped: float, *, held_for: float = 0.0) -> LockInfo:
    """A lock that a process has, as its blob tells: written when a hold began, or after it had lasted for so long."""
    since = datetime.fromtimestamp(stamped - held_for, UTC) if held_for else None
    holder = Holder(lock="a", owner=owner, host="vm", pid=7, since=since, renewed=held_for > 0)
    return replace(lock("a", etag, stamped, held=True), holder=holder, last=holder)


def test_a_young_hold_that_turns_out_to_be_anothers_is_told_once_more_and_a_longer_one_is_not() -> None:
    watch = Watch()
    seen(watch, 1000)
    assert seen(watch, 1002, of("first", "1", 990)) == [("got", "a")]
    assert seen(watch, 1010, of("second", "2", 1009, held_for=7.5)) == [("holds", "a")]
    assert seen(watch, 1012, of("second", "2", 1009, held_for=7.5)) == []
    assert seen(watch, 1014, of("second", "3", 1013, held_for=11.5)) == [], "a touch"
    assert seen(watch, 1020, of("third", "4", 1019)) == [("got", "a")]
    assert seen(watch, 1028, of("third", "5", 1027, held_for=8.0)) == []


def test_a_hold_of_another_begin_is_another_hold_though_its_owner_has_the_same_name() -> None:
    watch = Watch()
    seen(watch, 1000, of("tick", "1", 999, held_for=7.5))
    assert seen(watch, 1030, of("tick", "2", 1029, held_for=7.5)) == [("got", "a")]


def test_only_a_hold_whose_lease_was_renewed_is_taken_for_an_old_one() -> None:
    young, old = of("a", "1", 900), of("b", "1", 907.5, held_for=7.5)
    told = replace(old.last, renewed=None)
    version_before = replace(old, holder=told, last=told)
    unknown = lock("a", "1", 900, held=True)
    assert [_is_older(each, 940.0) for each in (young, old, version_before, unknown)] == [False, True, True, False]
    assert not _is_older(old, 899.0)


def test_the_end_of_a_hold_that_was_touched_since_the_last_look_is_its_end() -> None:
    watch = Watch()
    seen(watch, 1000, of("first", "1", 999, held_for=9.0))
    over = of("first", "2", 1001, held_for=11.0)
    assert seen(watch, 1002, replace(over, state="available", holder=None)) == [("free", "a")]


def test_another_hold_that_came_and_went_between_two_looks_had_it() -> None:
    watch = Watch()
    seen(watch, 1000, of("first", "1", 999, held_for=9.0))
    assert seen(watch, 1002, replace(of("next", "2", 1001), state="available", holder=None)) == [("passed", "a")]


def test_a_break_is_told_once_for_each_hold_and_who_has_the_lock_after_it_got_it() -> None:
    watch = Watch()
    held, ending = of("first", "1", 999, held_for=9.0), replace(of("first", "1", 999, held_for=9.0), state="breaking")
    assert seen(watch, 1000, held) == [("holds", "a")]
    assert seen(watch, 1002, ending) == [("breaking", "a")]
    assert seen(watch, 1004, replace(ending, etag="2")) == [], "a touch"
    assert seen(watch, 1006, replace(held, etag="2")) == [("got", "a")], "the next one there left no stamp"
    other = replace(of("second", "3", 1008), state="breaking")
    assert seen(watch, 1008, other) == [("got", "a"), ("breaking", "a")]
    third = replace(of("third", "4", 1010), state="breaking")
    assert seen(watch, 1010, third) == [("got", "a"), ("breaking", "a")], "broken, too"
    assert seen(watch, 1012, replace(third, state="broken", holder=None)) == [("free", "a")]


def test_a_lock_that_is_being_broken_at_the_first_look_is_told_with_its_holder() -> None:
    assert seen(Watch(), 1000, replace(of("first", "1", 990), state="breaking")) == [("holds", "a"), ("breaking", "a")]
