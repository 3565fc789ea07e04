"""Random histories of single blobs: made, asked of a real service and of the model, and compared request by request.

Everything that a lock, another library or an operator may do to a lock blob is in them: right and wrong lease ids,
durations and break periods in and out of range, writes with a lease and without, deletion, and time that passes.
"""
# ruff: noqa: D102, SLF001 - of the base class; and operators ask for what no store offers

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from simulator.virtual.time.loop import VirtualLoop
from singleton.stores.azure_blob import judged
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.protocol import LeaseStore

BlobCall = Literal["acquire", "renew", "release", "break", "create", "write", "edit", "delete"]

CALLS: Final[tuple[BlobCall, ...]] = ("acquire", "renew", "release", "break", "create", "write", "edit", "delete")
IDS: Final = (*(f"00000000-0000-4000-8000-00000000000{digit}" for digit in "abc"), "no guid")
NO_GUID: Final = len(IDS) - 1
DURATIONS: Final = (*[15] * 8, *[21] * 4, 60, -1, 14, 61, 0)
PERIODS: Final = (0, 0, 3, 9, 9, 60, None, None, 61)
SLACK: Final = 0.1
"""Seconds by which the service's clock and ours may differ over a history; the requests' own lengths come on top."""

OTHER_CODE: Final = "another code"
DIVERGENCES: Final = {
    "A-1": "renewing an expired lease with any id succeeds, and returns the earlier owner's id (Azurite#2352)",
    "A-2": "a lease id that is no GUID is taken for one",
    "A-3": "a break period out of range is accepted where the lease has no end, or has ended",
    "A-5": "durations and break periods out of range are looked at after the blob and its lease, not before",
    "A-6": "a write under a lease that expired is told that there is none, not that it was lost",
    OTHER_CODE: "a refusal with the documented status and meaning has another error code than the model's",
}
"""Where Azurite differs from the documentation (facts §1 and §2; A-5 was found by these histories), or any service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request: which, with which of ``IDS``, and for how long a lease or its end.

    ``stale``: on condition of an ETag that the blob had earlier.
    """

    call: BlobCall
    who: int = 0
    duration: int = 15
    period: int | None = 0
    text: str = ""
    stale: bool = False

    def __str__(self) -> str:
        match self.call:
            case "acquire":
                return f"acquire as {self.who} for {self.duration} s"
            case "renew" | "release":
                return f"{self.call} as {self.who}"
            case "write":
                return f"write {self.text!r} as {self.who}" + (" over what was there earlier" if self.stale else "")
            case "break":
                return f"break after {self.period} s"
            case _:
                return f"{self.call} {self.text!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnswer:
    """What came of a request, and the blob as everybody sees it afterwards. ``began`` and ``ended``: seconds."""

    outcome: str
    state: str | None
    metadata: dict[str, str] = field(default_factory=dict)
    etag_changed: bool = False
    began: float = field(default=0.0, compare=False)
    ended: float = field(default=0.0, compare=False)


def random_ask(rng: random.Random) -> Ask:
    """Draw a request; those that a lock makes come up more often."""
    return Ask(
        call=rng.choices(CALLS, weights=(5, 5, 2, 2, 1, 4, 1.5, 0.6))[0],
        who=rng.choices(range(len(IDS)), weights=(10, 4, 1, 0.7))[0],
        duration=rng.choice(DURATIONS),
        period=rng.choice(PERIODS),
        text=str(rng.randrange(100)),
        stale=rng.random() < 0.2,
    )


class Blob(ABC):
    """A blob that can be asked. Three requests are made by operators only: no store has them."""

    def __init__(self, store: LeaseStore, name: str) -> None:
        self.store = store
        self.name = name
        self._etag = self._earlier = '"0x0"'

    @abstractmethod
    async def break_after(self, period: int | None) -> None:
        """Let the lease go on for a period (None: to its end), and no longer."""

    @abstractmethod
    async def edit(self, metadata: dict[str, str]) -> None:
        """Replace the metadata without a lease."""

    @abstractmethod
    async def delete(self) -> None:
        """End any lease, and delete the blob."""

    async def ask(self, ask: Ask) -> ServiceAnswer:
        """Make the request, then look at the blob."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            outcome = await self._request(ask)
        except StoreFailure as failure:
            outcome = f"{failure.status} {failure.code}"
        try:
            seen = await self.store.read(self.name)
        except StoreFailure as failure:
            return ServiceAnswer(outcome=outcome, state=str(failure.status), began=began, ended=loop.time())
        if outcome.startswith(('"', "0x")):
            outcome = "etag" if outcome == seen.etag else "another ETag than the blob has"
        if changed := seen.etag != self._etag:
            self._earlier, self._etag = self._etag, seen.etag
        return ServiceAnswer(
            outcome=outcome,
            state=seen.lease,
            metadata=dict(seen.metadata),
            etag_changed=changed,
            began=began,
            ended=loop.time(),
        )

    async def _request(self, ask: Ask) -> str:
        lease_id = IDS[ask.who]
        match ask.call:
            case "acquire":
                return await self.store.acquire(self.name, lease_id, ask.duration)
            case "renew":
                return await self.store.renew(self.name, lease_id)
            case "release":
                await self.store.release(self.name, lease_id)
            case "break":
                await self.break_after(ask.period)
            case "create":
                await self.store.create(self.name)
            case "write":
                etag = self._earlier if ask.stale else self._etag
                return await self.store.write(self.name, lease_id, {f"Key{ask.text[-1:]}": ask.text}, etag)
            case "edit":
                await self.edit({"Edited": ask.text})
            case "delete":
                await self.delete()
        return "ok"


class RealBlob(Blob):
    """A blob of a real service; an operator does, through the SDK, what no lock asks."""

    def __init__(self, store: LeaseStore, operator: AzureBlobLeaseStore, name: str) -> None:
        super().__init__(store, name)
        self._operator = operator

    async def break_after(self, period: int | None) -> None:
        await judged(self._operator._lease(self.name, None).break_lease(lease_break_period=period))

    async def edit(self, metadata: dict[str, str]) -> None:
        await judged(self._operator._client(self.name).set_blob_metadata(metadata))

    async def delete(self) -> None:
        with contextlib.suppress(StoreFailure):
            await self.store.break_(self.name)
        with contextlib.suppress(StoreFailure):
            await judged(self._operator._client(self.name).delete_blob())


class ModelBlob(Blob):
    """The same blob in the model, on a virtual clock that is set before each request."""

    store: MemoryLeaseStore

    def __init__(self, model: type[MemoryLeaseStore]) -> None:
        super().__init__(model(), "blob")
        self.loop = VirtualLoop()  # type: ignore[abstract]

    async def break_after(self, period: int | None) -> None:
        await self.store.break_(self.name, after=period)

    async def edit(self, metadata: dict[str, str]) -> None:
        self.store.edit(self.name, metadata)

    async def delete(self) -> None:
        self.store.delete(self.name)

    def ask_at(self, ask: Ask, at: float) -> ServiceAnswer:
        """Make the request at this time, then look at the blob."""
        self.loop.now = max(self.loop.now, at)
        return self.loop.run_until_complete(self.ask(ask))

    def look(self, began: float, ended: float, slack: float) -> tuple[str, bool, bool]:
        """Return the state at ``began``, whether the lease has no end, and whether it ends or breaks near that time."""
        blob = self.store._blobs.get(self.name)
        if blob is None:
            return "missing", False, False
        ends = [end for end in (blob.expires, blob.breaks) if end is not None] if blob.lease_id else []
        near = any(began - slack < end < ended + slack for end in ends)
        return blob.state(began), blob.duration == math.inf, near


@dataclass(slots=True)
class Comparison:
    """How far a history could be compared, and what was excused."""

    compared: int = 0
    unsure: bool = False
    excused: list[str] = field(default_factory=list)
    differs: str | None = None
    reached: set[tuple[str, BlobCall, str]] = field(default_factory=set)


def compare(
    asks: Sequence[Ask], answers: Sequence[ServiceAnswer], model_of: type[MemoryLeaseStore] = MemoryLeaseStore
) -> Comparison:
    """Make a real blob's requests of the model, at their times; stop at the first difference.

    A difference with a name is excused, and the history goes on if the two blobs are still alike. A request so near
    to the end of a lease that it may have met either side of it ends the history: nobody can say what is right.
    """
    model = ModelBlob(model_of)
    found = Comparison()
    slack = SLACK
    for number, (ask, real) in enumerate(zip(asks, answers, strict=True)):
        slack = max(slack, SLACK + real.ended - real.began)
        before, endless, near = model.look(real.began, real.ended, slack)
        if near:
            found.unsure = True
            return found
        modelled = model.ask_at(ask, (real.began + real.ended) / 2)
        found.compared += 1
        found.reached.add((before, ask.call, modelled.outcome))
        if modelled == real:
            continue
        name = excuse(ask, before, modelled, real, endless=endless)
        if name is None:
            found.differs = tell(asks[:number], answers) + f"{ask} on {before}:\n  model   {modelled}\n  service {real}"
            return found
        found.excused.append(name)
        if (modelled.state, modelled.metadata, modelled.etag_changed) != (
            real.state,
            real.metadata,
            real.etag_changed,
        ):
            return found
    return found


def tell(asks: Sequence[Ask], answers: Sequence[ServiceAnswer]) -> str:
    """Write down what was asked and answered."""
    began = answers[0].began
    return "".join(
        f"{answer.began - began:7.3f} s  {ask}: {answer.outcome}, {answer.state}\n"
        for ask, answer in zip(asks, answers, strict=False)
    )


def excuse(ask: Ask, before: str, modelled: ServiceAnswer, real: ServiceAnswer, *, endless: bool) -> str | None:
    """Return the name of the divergence that explains the difference, if there is one."""
    out_of_range = modelled.outcome == "400 InvalidHeaderValue"
    match ask.call:
        case "renew" if before == "expired" and modelled.outcome.startswith("409") and real.outcome in IDS:
            return "A-1" if real.outcome != IDS[ask.who] else None
        case "acquire" | "renew" | "release" | "write" if ask.who == NO_GUID and out_of_range:
            return "A-2"
        case "break" if out_of_range and (endless or before in ("broken", "expired")) and real.outcome == "ok":
            return "A-3"
        case "acquire" | "break" if out_of_range and real.outcome[:3] in ("404", "409"):
            return "A-5"
        case "write" if before == "expired" and real.outcome == "412 LeaseNotPresentWithBlobOperation":
            return "A-6" if modelled.outcome.startswith("412") else None
        case _:
            alike = modelled.state == real.state and _meaning(modelled) == _meaning(real) != ""
            return OTHER_CODE if alike else None


def _meaning(answer: ServiceAnswer) -> str:
    """Return status and meaning of a refusal: locks go by the meaning. Empty: no refusal."""
    status, _, code = answer.outcome.partition(" ")
    return f"{status} {StoreFailure(int(status), code).meaning}" if status.isdecimal() and code else ""


def random_rounds(rng: random.Random, number: int) -> list[list[Ask]]:
    """Draw a history in rounds; between two of them, time passes. Most blobs are left alone in some."""
    busy = rng.choice((0.3, 0.6, 1.5))
    rounds = [[random_ask(rng) for _ in range(round(rng.expovariate(1 / busy)))] for _ in range(number)]
    return [[Ask(call="create"), Ask(call="acquire", duration=rng.choice((15, 15, 21))), *rounds[0]], *rounds[1:]]


async def live(
    blob: RealBlob, rounds: Sequence[Sequence[Ask]], times: Sequence[float], line: asyncio.Semaphore
) -> list[ServiceAnswer]:
    """Make the requests of each round, one after another, when its time has come; ``line``: so many at once."""
    answers: list[ServiceAnswer] = []
    loop = asyncio.get_running_loop()
    for asks, due in zip(rounds, times, strict=True):
        await asyncio.sleep(max(0.0, due - loop.time()))
        for ask in asks:
            async with line:
                answers.append(await blob.ask(ask))
    return answers
