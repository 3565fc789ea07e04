"""What a lock client tells within an app is no deed of a guard: checks of guards don't see it."""

from __future__ import annotations

from simulator.history.historian import read_history
from simulator.history.journal import Record


def told(mode: str | None) -> list[Record]:
    about = {"lock": "a", "function": "", "owner": "me", "mode": mode}
    kinds = ("waiting", "acquired", "lost", "released")
    return [Record(float(at), "host-1", "lock", {"kind": kind, **about}) for at, kind in enumerate(kinds)]


def test_the_locks_of_a_client_are_passed_over() -> None:
    history = read_history(told("lock"))
    assert not history.acquisitions
    assert not history.waits
    assert not history.losses
    assert [*history.client_locks] == ["a"]


def test_the_locks_of_an_inbox_are_its_own() -> None:
    records = [Record(1.0, "host-1", "lock", {"kind": "acquired", "lock": "inbox/orders/look", "mode": "lock"})]
    assert not read_history(records).client_locks


def test_those_of_guards_are_not() -> None:
    for mode in (None, "function", "listener"):
        history = read_history(told(mode))
        assert len(history.acquisitions) == 1
        assert not history.client_locks
