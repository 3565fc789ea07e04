"""Asks for the same random histories through both ways to the service, and of the model: request by request.

The proofs of this package run on the model. So each answer that the model gives otherwise is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import note, unproven, violation
from simulator.checks.reports import CheckResult
from simulator.pilot.assumed.histories import DIVERGENCES, RealBlob, compare, live, random_rounds
from simulator.pilot.pilot_time import PilotOverError
from simulator.pilot.traffic import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulator.checks.findings import Finding
    from simulator.pilot.assumed.histories import Ask, Comparison, ServiceAnswer
    from simulator.pilot.pilot_time import PilotTime
    from simulator.pilot.traffic import StoreWay
    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.protocol import LeaseStore

ROUNDS: Final = 6
APART: Final = 6.0
"""Seconds between the rounds of a history in which leases end."""
LASTS: Final = ROUNDS * APART
AT_ONCE: Final = 4
_UNUSABLE: Final = ("401", "403", "408", "429", "5", "None")
"""How outcomes begin that say nothing about leases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A history, and what came of it by each way; ``timed``: time passed between its rounds."""

    asks: Sequence[Ask]
    answers: dict[StoreWay, list[ServiceAnswer]]
    timed: bool


async def live_both_ways(
    open_store: Callable[[StoreWay], LeaseStore],
    operator: AzureBlobLeaseStore,
    time: PilotTime,
    *,
    many: int,
    timed: int,
    seed: int,
) -> tuple[list[Lived], int]:
    """Ask for ``many`` histories in which no time passes, and for ``timed`` in which leases end.

    Return those that came to their end, and how many did not.
    """
    rng = random.Random(seed)
    drawn = [(random_rounds(rng, ROUNDS), number >= many) for number in range(many + timed)]
    begin, line = asyncio.get_running_loop().time(), asyncio.Semaphore(AT_ONCE)

    async def one(number: int, way: StoreWay, store: LeaseStore) -> list[ServiceAnswer] | None:
        rounds, late = drawn[number]
        times = [begin + APART * each * late for each in range(ROUNDS)]
        with contextlib.suppress(PilotOverError):
            return await time.run(live(RealBlob(store, operator, f"histories/{way}-{number}"), rounds, times, line))
        return None

    direct, sdk = (open_store(way) for way in WAYS)
    async with aclosing(operator), aclosing(direct), aclosing(sdk):
        lives = [
            one(number, way, store)
            for number in range(len(drawn))
            for way, store in zip(WAYS, (direct, sdk), strict=True)
        ]
        answers = await asyncio.gather(*lives)
    lived = []
    for (rounds, late), direct_answers, sdk_answers in zip(drawn, answers[::2], answers[1::2], strict=True):
        if direct_answers is not None and sdk_answers is not None:
            by_way: dict[StoreWay, list[ServiceAnswer]] = {"direct": direct_answers, "sdk": sdk_answers}
            lived.append(Lived(asks=[*itertools.chain(*rounds)], answers=by_way, timed=late))
    return lived, len(drawn) - len(lived)


def compare_both_ways(lived: Sequence[Lived], unseen: int) -> list[CheckResult]:
    """Compare the two ways with each other, and each with the model. No event loop may run in this thread."""
    usable = [each for each in lived if not any(_unusable(answers) for answers in each.answers.values())]
    silent = len(lived) + unseen - len(usable)
    left = [unproven(f"{silent} histories met a refusal or no answer: they say nothing")] if silent else []
    still = [each for each in usable if not each.timed]
    ways = [found for each in still for found in _differ(each)]
    compared = [compare(each.asks, each.answers[way]) for each in usable for way in WAYS]
    return [
        CheckResult(
            name="both ways",
            promise="A request through the Azure SDK gets the answer that it gets without the SDK.",
            looked_at={"histories": len(still), "requests by each way": sum(len(each.asks) for each in still)},
            findings=(*ways, *left),
        ),
        CheckResult(
            name="model of the service",
            promise="The account answers as the model on which the promises of locks are proved.",
            looked_at={"histories": len(compared), "requests": sum(each.compared for each in compared)},
            findings=(*_of_model(compared), *left),
        ),
    ]


def _unusable(answers: Sequence[ServiceAnswer]) -> bool:
    return any(text.startswith(_UNUSABLE) for each in answers for text in (each.outcome, each.state or ""))


def _differ(each: Lived) -> Iterator[Finding]:
    for ask, direct, sdk in zip(each.asks, each.answers["direct"], each.answers["sdk"], strict=True):
        if direct != sdk:
            yield violation(f"{ask}: {direct.outcome}, {direct.state} directly; {sdk.outcome}, {sdk.state} by the SDK")
            return


def _of_model(compared: Sequence[Comparison]) -> Iterator[Finding]:
    yield from (violation(" ".join(each.differs.split())) for each in compared if each.differs)
    for name, times in sorted(Counter(name for each in compared for name in each.excused).items()):
        yield note(f"{name}: {DIVERGENCES[name]}; {times} times. Locks do not rely on it")
