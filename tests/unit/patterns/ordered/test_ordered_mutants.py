"""Inboxes are broken on purpose, in one way after the other, and each is noticed: by the test beside it.

Most planted bugs of inboxes are found by worlds with whole hosts: ``tests/simulation/planted/inboxes.py``.
"""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import pytest

from singleton.patterns.ordered import log_reader
from tests.support.mutants import Mutant, fails_its_test
from tests.support.virtual import run_virtual
from tests.unit.patterns.ordered import test_operators_calls as operators
from tests.unit.patterns.ordered import test_ordered_calling as calling
from tests.unit.patterns.ordered import test_ordered_sending as sending
from tests.unit.patterns.ordered import test_swept_keys as swept
from tests.unit.patterns.ordered.logworld import World
from tests.unit.patterns.ordered.test_ordered_logs import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.planted,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

READING, SENDING, VISIT = (f"patterns.ordered.{name}" for name in ("log_reader", "service", "visit"))
SWEEPING = "operating.container_pass"

COMPARED = 'position.log not in ("", id_in(tail.metadata), chain_of(tail))'

LOGS = [Mutant("labels are not compared", READING, COMPARED, "False")]
"""Found by random worlds of lost, late and doubled requests."""


def in_a_short_week(test: Callable[[], Any]) -> None:
    """Run a test of sweeps."""
    before = log_reader._WEEK
    log_reader._WEEK = float(swept.WEEK)  # type: ignore[misc]
    try:
        test()
    finally:
        log_reader._WEEK = before  # type: ignore[misc]


OTHERS: list[tuple[Mutant, Callable[[], Any]]] = [
    (
        Mutant("an attempt is counted behind the message", VISIT, "self.again or position.tried > 0\n", "False\n"),
        calling.test_a_message_that_kills_its_process_each_time_is_put_aside_and_the_rest_goes_on,
    ),
    (
        Mutant("what came again counts for all that follows", VISIT, "        self.again = False\n", ""),
        calling.test_a_bell_that_came_again_costs_one_request_more,
    ),
    (
        Mutant("a part for a log that is not full", SENDING, "if not first.full:", "if False:"),
        sending.test_a_message_that_a_full_log_refused_is_found_in_the_log_that_is_there_by_then,
    ),
    (
        Mutant("no turn", SENDING, "self._turns.setdefault(spot, Turn())", "Turn()"),
        sending.test_tasks_that_send_at_once_lose_nothing_however_long_each_request_takes,
    ),
    (
        Mutant("the patience of sends adds up", SENDING, "max(began, turn.moved) + _PATIENCE", "clock() + _PATIENCE"),
        sending.test_sends_of_one_key_in_an_outage_fail_after_one_time_out,
    ),
    (
        Mutant("a long line is an outage", SENDING, "max(began, turn.moved) + _PATIENCE", "began + _PATIENCE"),
        sending.test_sends_that_wait_long_for_their_turn_on_a_slow_storage_are_all_answered,
    ),
    (
        Mutant("an operator's call waits for the pause", "patterns.ordered.operators", "position.until, ", "_, "),
        functools.partial(
            operators.test_a_resumed_key_is_not_stopped_and_its_first_message_is_tried_at_once_as_new, operators.failing
        ),
    ),
    (
        Mutant("a key with messages is swept", SWEEPING, "not await self._is_gone(other)", "False"),
        functools.partial(in_a_short_week, swept.test_a_sweep_does_not_have_a_read_part_of_a_log_read_again),
    ),
    (
        Mutant("a key is swept as soon as its messages are handled", READING, "at + _WEEK", "at"),
        functools.partial(
            in_a_short_week, swept.test_a_sweep_deletes_a_key_a_week_after_its_last_message_and_its_tokens_go_on
        ),
    ),
]


def in_worlds() -> None:
    """Run worlds until one breaks."""
    for seed in range(120):
        for most_blocks, few, ahead in SHAPES:
            rng = random.Random(f"{seed} {most_blocks} {few}")
            before = log_reader._FEW, log_reader._AHEAD
            log_reader._FEW, log_reader._AHEAD = few, ahead  # type: ignore[misc]
            try:
                world = World(rng, most_blocks=most_blocks, trouble=0.3)
                run_virtual(world.run(rng.randint(1, 3), rng.randint(1, 15)))
                world.judge()
            finally:
                log_reader._FEW, log_reader._AHEAD = before  # type: ignore[misc]


@pytest.mark.parametrize("mutant", LOGS, ids=str)
def test_worlds_find_each_broken_log(mutant: Mutant) -> None:
    fails_its_test(mutant, in_worlds)


@pytest.mark.parametrize(("mutant", "test"), OTHERS, ids=[str(mutant) for mutant, _ in OTHERS])
def test_each_broken_inbox_fails_its_test(mutant: Mutant, test: Callable[[], Any]) -> None:
    fails_its_test(mutant, test)
