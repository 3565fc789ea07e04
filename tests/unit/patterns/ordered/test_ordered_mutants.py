"""Inboxes are broken on purpose, in one way after the other, and each is noticed: by the test beside it."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any

import pytest

from singleton.patterns.ordered import reading
from tests.support.mutants import Mutant, applied
from tests.support.virtual import run_virtual
from tests.unit.patterns.ordered import test_inbox as inbox
from tests.unit.patterns.ordered import test_ordered_calling as calling
from tests.unit.patterns.ordered import test_ordered_functions as functions
from tests.unit.patterns.ordered import test_ordered_sending as sending
from tests.unit.patterns.ordered.logworld import World
from tests.unit.patterns.ordered.test_ordered_logs import SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

READING, SENDING, POSITION = (f"patterns.ordered.{name}" for name in ("reading", "sending", "position"))
PROTOCOL, VISIT, ANSWERING = (f"patterns.ordered.{name}" for name in ("protocol", "visit", "answering"))

CHANGED = 'return failure.meaning == "missing"'
COMPARED = 'position.log not in ("", id_in(tail.metadata), chain_of(tail))'
MARKED = "if await self._asked(lambda: self._store.create(name, {LOG_KEY: ENDED})) is None:"
SHORT = "if position.log or is_short:"
CHECKED = "        hold.raise_if_lost()\n        error: "
FORGOTTEN = "self.failures, self.until = 0, 0.0\n        self.at"

LOGS = [
    Mutant("repeats are handled", POSITION, "entry.number <= self.senders.get(entry.sender, 0)", "False"),
    Mutant("a log that has changed counts as gone", READING, CHANGED, "return True"),
    Mutant("an offset is kept without a label", READING, SHORT, f"position.log = 'x'\n        {SHORT}"),
    Mutant("labels are not compared", READING, COMPARED, "False"),
    Mutant("any first log is taken for the chain's", PROTOCOL, "if chain_of(found) == chain:", "if True:"),
    Mutant("the last part is not marked", READING, MARKED, "if not name:"),
    Mutant("what follows a full log is not read", READING, "if seen.full:", "if False:"),
]
"""Found by random worlds of lost, late and doubled requests."""

OTHERS: list[tuple[Mutant, Callable[[], Any]]] = [
    (
        Mutant("a lost lock is not noticed before a message", VISIT, CHECKED, "        error: "),
        inbox.test_a_consumer_that_stood_still_behind_a_message_takes_no_further_one,
    ),
    (
        Mutant("a bell that finds its key in use is dropped", ANSWERING, "again=bell.pause", "again=None"),
        inbox.test_a_bell_that_finds_its_key_in_use_rings_again_later,
    ),
    (
        Mutant("an attempt is counted behind the message", VISIT, "if self.again or position.failures:", "if False:"),
        calling.test_a_message_that_kills_its_process_each_time_is_put_aside_and_the_rest_goes_on,
    ),
    (
        Mutant("what came again counts for all that follows", VISIT, "            self.again = False\n", ""),
        calling.test_a_bell_that_came_again_costs_one_request_more,
    ),
    (
        Mutant("no bell for a dead consumer", VISIT, "                await self.begins()\n", ""),
        inbox.test_a_consumer_that_dies_leaves_a_bell_that_rings_when_its_lease_has_ended,
    ),
    (
        Mutant("a repeat forgets failures", POSITION, f"    {FORGOTTEN}", FORGOTTEN),
        inbox.test_a_message_that_fails_holds_its_key_back_and_is_put_aside_and_the_rest_goes_on,
    ),
    (
        Mutant("a part for a log that is not full", SENDING, "if not first.full:", "if False:"),
        sending.test_a_message_that_a_full_log_refused_is_found_in_the_log_that_is_there_by_then,
    ),
    (
        Mutant("no turn", SENDING, "self._turns.setdefault(spot, asyncio.Lock())", "asyncio.Lock()"),
        sending.test_tasks_that_send_at_once_lose_nothing_however_long_each_request_takes,
    ),
    (
        Mutant("no bell for the first message of a log", SENDING, "return not offset or now", "return now"),
        inbox.test_each_new_log_rings_a_bell,
    ),
    (
        Mutant("a failed message is tried at once", VISIT, "position.until - at", "position.until - 1e9"),
        functions.test_an_invocation_whose_message_fails_fails_and_its_bell_is_ours_to_ring,
    ),
]


def in_worlds() -> None:
    """Run worlds until one breaks."""
    for seed in range(120):
        for most_blocks, few, ahead in SHAPES:
            rng = random.Random(f"{seed} {most_blocks} {few}")
            before = reading._FEW, reading._AHEAD
            reading._FEW, reading._AHEAD = few, ahead  # type: ignore[misc]
            try:
                world = World(rng, most_blocks=most_blocks, trouble=0.3)
                run_virtual(world.run(rng.randint(1, 3), rng.randint(1, 15)))
                world.judge()
            finally:
                reading._FEW, reading._AHEAD = before  # type: ignore[misc]


@pytest.mark.parametrize("mutant", LOGS, ids=str)
def test_worlds_find_each_broken_log(mutant: Mutant) -> None:
    with applied(mutant), pytest.raises(BaseException):  # noqa: B017, PT011 - in whatever way
        in_worlds()
    gc.collect()


@pytest.mark.parametrize(("mutant", "test"), OTHERS, ids=[str(mutant) for mutant, _ in OTHERS])
def test_each_broken_inbox_fails_its_test(mutant: Mutant, test: Callable[[], Any]) -> None:
    with applied(mutant), pytest.raises(BaseException):  # noqa: B017, PT011
        test()
    gc.collect()
