"""``ahead``: the keys whose tokens under a lock's old name are ahead of those under its new name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from singleton import OldLock, current_hold, singleton
from singleton.layouts.blob_name import hashed_scope, lock_name
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.registry import Registry
from tests.support.lock_thread import Context
from tests.support.locks_command import stamped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

SEND: Final = "locks/app/send"
SHIP: Final = "locks/app/ship"
RENAMES: Final[dict[str, tuple[dict[str, Any], OldLock, dict[str, Any], tuple[str, ...]]]] = {
    "function": ({"name": "send"}, OldLock(name="send"), {}, (SEND, SHIP)),
    "hashed": ({}, OldLock(scope_hash=False), {"scope_hash": True}, (SHIP, SHIP, "--hashed")),
    "plain": ({"scope_hash": True}, OldLock(scope_hash=True), {}, (SHIP, SHIP, "--plain")),
    "function, hashed": (
        {"name": "send"},
        OldLock(name="send", scope_hash=False),
        {"scope_hash": True},
        (SEND, SHIP, "--hashed"),
    ),
    "dequeueable": ({"layout": "dequeueable"}, OldLock(layout="dequeueable"), {}, ("", SHIP)),
}
"""Of each rename: the old declaration, what also= says of it, the new declaration, and the arguments of the command."""


def used(thread: LockThread, key: str, **declared: Any) -> int:
    """Use the lock of a key in a new process of a version of the app; return the token."""
    thread.runtime.close()
    thread.runtime = Runtime(Registry(thread._open))

    def ship(msg: str) -> int | None:
        return current_hold().token

    guarded: Any = singleton(scope="Id", **declared)(ship)
    token = guarded(msg=json.dumps({"Id": key}), context=Context())
    assert isinstance(token, int)
    return token


@pytest.mark.parametrize("rename", RENAMES)
def test_a_key_used_under_its_old_name_alone_is_listed_until_its_epochs_are_lifted(
    thread: LockThread, locks: Command, rename: str
) -> None:
    old, also, new, names = RENAMES[rename]
    for key in ("order-1", "order-2"):
        used(thread, key, **new, also=also)
    assert locks("ahead", *names) == 0
    assert (locks.out, locks.err) == ("", "2 keys with both names, 0 ahead\n")
    last = [used(thread, "order-1", **old) for _ in range(3)][-1]
    (listed,) = locks.json("ahead", *names, code=1)["ahead"]
    assert listed["token"] // 1000 == last // 1000
    assert "order-1" in (listed["old"] + listed["new"]) or hashed_scope("order-1") in listed["old"]
    assert locks("ahead", *names) == 1
    assert locks.out == f"{listed['old']}: token {listed['token']}, ahead of {listed['new_token']} of {listed['new']}\n"
    assert locks.err == "2 keys with both names, 1 ahead\n"
    assert locks("lift-epochs") == 0
    assert locks("ahead", *names) == 0
    assert used(thread, "order-1", **new) > last


@pytest.mark.parametrize("rename", RENAMES)
def test_a_key_used_under_both_names_after_that_is_ahead_no_more(
    thread: LockThread, locks: Command, rename: str
) -> None:
    old, also, new, names = RENAMES[rename]
    used(thread, "order-1", **new, also=also)
    last = [used(thread, "order-1", **old) for _ in range(2)][-1]
    assert locks("ahead", *names) == 1
    both = used(thread, "order-1", **new, also=also)
    assert locks("ahead", *names) == 0
    assert used(thread, "order-1", **new) > both > last


def test_who_leaves_out_the_condition_gets_a_smaller_token_as_the_page_says(thread: LockThread) -> None:
    old, also, new, _ = RENAMES["hashed"]
    used(thread, "order-1", **new, also=also)
    last = [used(thread, "order-1", **old) for _ in range(2)][-1]
    assert used(thread, "order-1", **new) <= last


def test_whichever_name_is_lifted_last_none_is_ahead_of_the_other(thread: LockThread, locks: Command) -> None:
    old, also, new, names = RENAMES["hashed"]
    used(thread, "order-1", **new, also=also)
    last = used(thread, "order-1", **old)
    later = lock_name("app", "ship", ["order-1"])  # the old name is listed behind the new one
    keep, lifted = thread.memory.write, set[str]()

    async def write(name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        if name == later and name not in lifted:
            thread.push_clock(3.0)
        lifted.add(name)
        return await keep(name, lease_id, metadata, etag)

    thread.memory.write = write  # type: ignore[method-assign]
    assert locks("lift-epochs") == 0
    assert len(lifted) == 2
    assert locks("ahead", *names) == 0
    assert used(thread, "order-1", **new) > last


def epochs(thread: LockThread, names: Mapping[str, int]) -> None:
    for name, epoch in names.items():
        stamped(thread, name, SingletonEpoch=str(epoch))


def test_a_host_id_and_functions_that_differ_are_compared_by_the_rest_of_their_names(
    thread: LockThread, locks: Command
) -> None:
    epochs(thread, {"locks/shop/a": 8, "locks/shop/b.1": 8, "locks/shop/~c": 7, "locks/shop2/a": 9, "locks/shop/x": 8})
    epochs(thread, {"locks/app/a": 7, "locks/app/b.1": 8, "locks/app/~c": 6, "locks/app/y": 1})
    assert locks("ahead", "locks/shop", "locks/app") == 1
    assert [line.partition(":")[0] for line in locks.out.splitlines()] == ["locks/shop/a", "locks/shop/~c"]
    assert locks.err == "3 keys with both names, 2 ahead\n"


def test_a_name_that_begins_with_another_is_none_of_its_keys(thread: LockThread, locks: Command) -> None:
    epochs(thread, {"locks/app/send": 7, "locks/app/send2.1": 9, "locks/app/ship": 7, "locks/app/ship2.1": 7})
    assert locks("ahead", SEND, SHIP) == 0
    assert locks.err == "1 key with both names, 0 ahead\n"


def test_names_that_were_cut_are_not_compared_and_it_is_said(thread: LockThread, locks: Command) -> None:
    for function in ("send", "ship"):
        epochs(thread, {lock_name("app", function, ["k" * 300]): 7})
    assert locks.json("ahead", SEND, SHIP, code=1) == {"ahead": [], "compared": 0, "cut": 1}
    assert locks("ahead", SEND, SHIP) == 1
    assert locks.err.endswith("1 lock not compared: a name that was too long has another end under NEW\n")


def test_the_old_names_may_be_in_another_container(thread: LockThread, locks: Command) -> None:
    epochs(thread, {"locks/app/ship": 7})
    assert locks("ahead", SHIP, SHIP, "--old-container", "former") == 0
    assert [place.container for place in thread.places][-2:] == ["former", "webjobshost"]


@pytest.mark.parametrize("ends", [(".", "."), (".", ""), ("", "."), ("/", "."), ("./", "")])
def test_a_dot_or_a_slash_at_the_end_of_a_name_makes_no_difference(
    thread: LockThread, locks: Command, ends: tuple[str, str]
) -> None:
    epochs(thread, {"locks/app/send.1": 9, "locks/app/ship.1": 7})
    assert locks("ahead", SEND + ends[0], SHIP + ends[1]) == 1
    assert locks.err == "1 key with both names, 1 ahead\n"
    assert locks("ahead", SEND + ends[0], SEND + ends[1]) == 2
    assert "OLD and NEW are the same" in locks.err


@pytest.mark.parametrize("names", [(SEND, SHIP, "--hashed"), ("locks/app/sen", "locks/app/shi"), (SEND, "locks/app/")])
@pytest.mark.parametrize("cut", [False, True])
def test_where_nothing_could_be_compared_the_command_does_not_say_that_also_may_go(
    thread: LockThread, locks: Command, names: tuple[str, ...], cut: bool
) -> None:
    """A forgotten or needless --hashed, or half a name."""
    epochs(thread, {"locks/app/send.1": 9, "locks/app/ship.1": 7})
    if cut:
        epochs(thread, {lock_name("app", "ship", ["k" * 300]): 7})
    assert locks("ahead", *names) == 2
    assert "nothing was compared" in locks.err
    assert "--hashed or --plain" in locks.err


def test_a_forgotten_hashed_is_told(thread: LockThread, locks: Command) -> None:
    old, also, new, names = RENAMES["function, hashed"]
    used(thread, "order-1", **new, also=also)
    used(thread, "order-1", **old)
    for given in (names[:2], (*names[:2], "--plain")):
        assert locks("ahead", *given) == 2
        assert "nothing was compared" in locks.err


@pytest.mark.parametrize("names", [("locks/app/sned", SHIP), (SEND, "locks/app/shp")], ids=["old", "new"])
def test_a_name_that_no_lock_has_is_a_mistake(thread: LockThread, locks: Command, names: tuple[str, str]) -> None:
    epochs(thread, {SEND: 7, SHIP: 7})
    assert locks("ahead", *names) == 2
    assert "id you mean" in locks.err


def test_a_name_is_not_compared_with_itself(locks: Command) -> None:
    assert locks("ahead", SHIP, SHIP) == 2
    assert "--hashed, --plain or --old-container" in locks.err
