"""What ``singleton-locks`` says while requests are not answered: those of a hold, a wait and a sweep, too."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import StorageUnavailable
from singleton.base.hold import LossSignal
from singleton.cli.silence import AnswerWatch, Outage
from singleton.stores.protocol import StoreFailure
from tests.support.lock_thread import FOREIGN
from tests.support.locks_command import stamped
from tests.support.world import now, virtual

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

SHIP = "locks/app/ship.42"


class Store:
    """A store whose answers take as long as they are told to, and may be failures."""

    def __init__(self) -> None:
        self.takes = 0.0
        self.failure: StoreFailure | None = None

    async def read(self, _: str) -> None:
        await asyncio.sleep(self.takes)
        if self.failure is not None:
            raise self.failure

    async def page(self, *_: object) -> None:
        await asyncio.sleep(self.takes)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> tuple[AnswerWatch, Store]:
    monkeypatch.setattr("singleton.cli.silence.time", SimpleNamespace(monotonic=now))
    answers = AnswerWatch("https://x")
    return answers, answers.watch(Store())


@virtual
async def test_two_seconds_without_an_answer_are_told_and_then_how_long_it_lasted(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    answers, store = heard
    for store.takes in (1.9, 2.1, 22.0):
        await store.read("a")
        assert answers.since is None
    assert capsys.readouterr().err.splitlines() == [
        "https://x has not answered for 2 s; asking again",
        "the storage answers again, after 2 s",
        "https://x has not answered for 2 s; asking again",
        "the storage answers again, after 22 s",
    ]


@virtual
async def test_failures_that_come_at_once_are_silence_too_and_a_refusal_is_an_answer(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    answers, store = heard
    store.failure = StoreFailure(503, "ServerBusy")
    for _ in range(5):
        with pytest.raises(StoreFailure):
            await store.read("a")
        await asyncio.sleep(1)
    assert answers.since is not None
    assert now() - answers.since == 5
    assert capsys.readouterr().err == "https://x has not answered for 2 s; asking again\n"
    store.failure = StoreFailure(404, "BlobNotFound")
    with pytest.raises(StoreFailure):
        await store.read("a")
    assert answers.since is None
    assert capsys.readouterr().err == "the storage answers again, after 5 s\n"


@virtual
async def test_a_request_that_times_out_is_silence_and_one_that_is_called_off_early_is_not(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    answers, store = heard
    store.takes = 60
    for patience, silent in ((0.5, False), (1.5, True)):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.read("a"), patience)
        assert (answers.since is not None) is silent
    await asyncio.sleep(3)
    assert capsys.readouterr().err == "https://x has not answered for 2 s; asking again\n"


@virtual
async def test_a_page_behind_the_first_one_may_take_ten_seconds(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    _, store = heard
    store.takes = 9
    await store.page("", "marker", 5000)
    assert capsys.readouterr().err == ""
    await store.page("", None, 5000)
    assert "has not answered for 2 s" in capsys.readouterr().err


@virtual
async def test_a_store_is_heard_once_whoever_heard_it_before(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    before, store = heard
    AnswerWatch("https://y").watch(store)
    store.takes = 3
    await store.read("a")
    assert before.since is None
    assert capsys.readouterr().err.count("has not answered") == 1


@virtual
async def test_an_outage_counts_from_the_first_request_that_was_not_answered_and_is_told_by_one(
    heard: tuple[AnswerWatch, Store], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, store = heard
    monkeypatch.setattr("singleton.cli.silence.time", SimpleNamespace(monotonic=now))
    store.takes = 14
    outage = Outage(answers)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.read("a"), 13)
    outage.goes_on(StorageUnavailable("away"))
    store.takes = 7
    await store.read("a")
    outage.is_over()
    assert capsys.readouterr().err.splitlines() == [
        "https://x has not answered for 2 s; asking again",
        "away for 13 s; asking again, Ctrl-C ends it",
        "the storage answers again, after 20 s",
    ]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleton.cli.silence.SILENT", 0.05)


@pytest.mark.usefixtures("impatient")
def test_an_outage_while_the_operator_holds_a_lock_is_told_and_named_as_the_cause_of_the_loss(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, SHIP)
    away = threading.Event()
    for name in ("renew", "write", "read"):
        monkeypatch.setattr(thread.memory, name, fails_while(away, getattr(thread.memory, name)))
    wait, first = LossSignal.wait, iter([True])

    def then_away(signal: LossSignal, timeout: float | None = None) -> bool:
        if not next(first, False):
            raise KeyboardInterrupt
        away.set()
        thread.push_clock(8)  # the renewal is due
        wait(signal, 0.3)
        thread.push_clock(8)
        lost = wait(signal, 5)
        threading.Timer(0.3, away.clear).start()
        return lost

    monkeypatch.setattr(LossSignal, "wait", then_away)
    assert locks("hold", SHIP, "--reason", "x") == 130
    assert "has not answered for" in locks.err
    assert f"{SHIP} lost (expired: the storage has not answered for " in locks.out


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (("lift-epochs",), "acquire"),
        (("sweep", "--older-than", "1m"), "drop"),
        (("hold", SHIP, "--reason", "x", "--for", "0s"), "acquire"),
        (("break", SHIP), "break_"),
        (("show", SHIP), "page"),
    ],
)
def test_an_outage_in_the_middle_of_a_command_is_told(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], request_: str
) -> None:
    stamped(thread, SHIP)
    if command[0] == "break":
        thread.do(lambda: thread.memory.acquire(SHIP, FOREIGN, 60))
    thread.push_clock(3600 if command[0] == "sweep" else 0)
    does = getattr(thread.memory, request_)

    async def late(*arguments: object, **more: object) -> Any:
        await asyncio.sleep(0.2)
        return await does(*arguments, **more)

    monkeypatch.setattr(thread.memory, request_, late)
    assert locks(*command) == 0
    assert "has not answered" in locks.err
    assert "the storage answers again" in locks.err


def fails_while(away: threading.Event, does: Callable[..., Any]) -> Callable[..., Any]:
    async def request(*arguments: object, **more: object) -> Any:
        if away.is_set():
            raise StoreFailure(503, "ServerBusy")
        return await does(*arguments, **more)

    return request
