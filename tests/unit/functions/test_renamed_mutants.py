"""Ways to break what holds a lock under two names: each fails its test, and those that concern safety random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.mutants import Mutant, fails_its_test, found_by_random
from tests.support.network import LOST_REPLY
from tests.support.renaming import OLD, World
from tests.support.virtual import run_virtual
from tests.unit.functions import test_renamed as renamed
from tests.unit.functions import test_renamed_schedules as schedules

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.planted,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

Killed = tuple[Mutant, "Callable[[], object]"]


def in_one_process() -> None:
    renamed.test_tokens_increase_over_all_who_exclude_one_another(OLD, fresh=False)


def in_processes_of_their_own() -> None:
    renamed.test_tokens_increase_over_all_who_exclude_one_another(OLD, fresh=True)


def either_taken() -> None:
    renamed.test_if_either_is_taken_neither_is_kept(OLD, 0)


UNSAFE: list[Killed] = [
    (
        Mutant(
            "the token of the new lock only",
            "functions.acquirers",
            "token = max(first.token, other.token)",
            "token = first.token",
        ),
        in_processes_of_their_own,
    ),
    (
        Mutant(
            "the token of the old lock only",
            "functions.acquirers",
            "token = max(first.token, other.token)",
            "token = other.token",
        ),
        in_processes_of_their_own,
    ),
    (
        Mutant(
            "the epoch of the lock behind is not raised",
            "functions.acquirers",
            "for part in (first, other):",
            "for part in (first, other)[:0]:",
        ),
        in_processes_of_their_own,
    ),
    (
        Mutant(
            "the epoch of the old lock is not raised",
            "functions.acquirers",
            "for part in (first, other):",
            "for part in (first,):",
        ),
        in_processes_of_their_own,
    ),
    (
        Mutant(
            "an epoch that is raised in this process only",
            "locking.fencing",
            "await self._raise(lease_id, owner, epoch)",
            "await asyncio.sleep(0)",
        ),
        in_processes_of_their_own,
    ),
    (
        Mutant(
            "a section of the other lock that is forgotten",
            "locking.fencing",
            "self._section = max(self._section, section)",
            "self._section = max(self._section, 0)",
        ),
        in_one_process,
    ),
    (
        Mutant(
            "the second lock is not asked for",
            "functions.acquirers",
            "all_or_none(locks, ask, drop, timeout=timeout, owner=owner, by=by) as holds:",
            "all_or_none([new], ask, drop, timeout=timeout, owner=owner, by=by) as one:\n"
            "        holds = {new: one[new], old: one[new]}",
        ),
        lambda: renamed.test_nobody_gets_in_under_either_name_meanwhile("old"),
    ),
    (
        Mutant(
            "the loss of the old lock is not seen",
            "functions.acquirers",
            "JointSignal(first.own_lost, other.own_lost)",
            "JointSignal(first.own_lost)",
        ),
        lambda: renamed.test_a_loss_of_either_is_the_loss_of_the_hold(OLD, "broken"),
    ),
]

OTHERS: list[Killed] = [
    (
        Mutant(
            "the first lock is not given back on contention",
            "base.several",
            "dropping := [drop(hold) for hold in holds.values()]",
            "dropping := [drop(hold) for hold in list(holds.values())[1:]]",
        ),
        either_taken,
    ),
    (
        Mutant(
            "a write that failed is taken for done",
            "functions.acquirers",
            'if not left or failure.meaning != "transient" or loop.time() + _PAUSE >= by:',
            "if not left:\n                return\n            if False:",
        ),
        renamed.test_an_epoch_that_can_not_be_raised_gives_nobody_a_token,
    ),
    (
        Mutant(
            "the new lock first, whichever it is",
            "functions.acquirers",
            "sorted(addresses, key=lambda address: (address.place.container, address.name))",
            "[*addresses]",
        ),
        renamed.test_two_functions_that_swap_their_names_never_wait_for_each_other_for_ever,
    ),
    (
        Mutant(
            "the loss of the old lock is not told",
            "base.several",
            "[signal.add_callback(self.fire) for signal in signals]",
            "[signals[0].add_callback(self.fire)]",
        ),
        lambda: renamed.test_a_loss_of_either_is_the_loss_of_the_hold(OLD, "stolen"),
    ),
    (
        Mutant(
            "a process that slept does not know of the old lock",
            "base.several",
            "next((reason for each in self._signals if",
            "next((reason for each in self._signals[:1] if",
        ),
        lambda: renamed.test_a_process_that_slept_knows_at_once(OLD),
    ),
    (
        Mutant(
            "one of both is given back",
            "locking.lock",
            "for part in parts if isinstance(part, Section)",
            "for part in parts[:1] if isinstance(part, Section)",
        ),
        renamed.test_both_are_held_and_shown_as_one_hold_of_the_new_name,
    ),
    (
        Mutant(
            "a write of a lost reply is not read",
            "locking.fencing",
            "await self._read()  # with its epoch: a later write of this hold's stamp must not go back",
            "raise",
        ),
        lambda: renamed.test_the_write_that_raises_an_epoch_may_be_lost_late_or_answered_wrongly(LOST_REPLY, "old"),
    ),
    (
        Mutant(
            "an epoch that was raised goes back",
            "locking.fencing",
            "await self._read()  # with its epoch: a later write of this hold's stamp must not go back",
            "state = await self._store.read(self._name)\n"
            "            self._etag, self._others = state.etag, state.metadata",
        ),
        renamed.test_an_epoch_that_was_raised_never_goes_back,
    ),
    (
        Mutant(
            "the wait for the second goes on without the first",
            "base.several",
            "forget = [signal.add_callback(end) for signal in signals]",
            "forget = [signal.add_callback(end) for signal in signals[:0]]",
        ),
        renamed.test_the_first_that_is_lost_ends_the_wait_for_the_second,
    ),
]

ALL = UNSAFE + OTHERS


def test_the_real_code_passes_all_of_them() -> None:
    for _, test in ALL:
        test()


@pytest.mark.parametrize(("mutant", "test"), ALL, ids=[str(mutant) for mutant, _ in ALL])
def test_each_mutant_fails_its_test(mutant: Mutant, test: Callable[[], object]) -> None:
    fails_its_test(mutant, test)


@pytest.mark.parametrize("mutant", [mutant for mutant, _ in UNSAFE], ids=str)
def test_random_mixtures_find_each_unsafe_mutant(mutant: Mutant) -> None:
    found_by_random(mutant, schedules.schedules, lambda schedule: run_virtual(World().play(*schedule)))
