"""What can be seen of locks from one look to the next."""

from __future__ import annotations

from datetime import UTC, datetime

from singleton.base.holder import Holder
from singleton.operating.locks import LockInfo
from singleton.operating.watching import Watch


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
