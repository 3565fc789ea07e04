"""``singleton-locks`` while the storage does not answer, or refuses: what it says, and when it gives up."""

from __future__ import annotations

import itertools
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import StorageUnavailable
from singleton.cli import silence
from singleton.cli.silence import AnswerWatch, Outage, silence_told
from singleton.operating import container as container_module
from singleton.operating.container import next_page
from singleton.stores.protocol import StoreFailure
from tests.support.locks_command import stamped
from tests.support.network import Network
from tests.support.world import now, virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.lock_thread import LockThread
    from tests.support.locks_command import Command

SHIP = "locks/app/ship.42"
AWAY = StoreFailure(503, "ServerBusy")
DENIED = StoreFailure(403, "AuthorizationPermissionMismatch")


class Service:
    """The model of the service, which fails when it is told to."""

    def __init__(self, thread: LockThread, patch: pytest.MonkeyPatch) -> None:
        self.failure: StoreFailure | None = None
        for name in ("page", "acquire", "renew", "create", "write", "read"):
            patch.setattr(thread.memory, name, self._failing(getattr(thread.memory, name)))

    def _failing(self, request: Callable[..., Any]) -> Callable[..., Any]:
        async def maybe(*arguments: object) -> Any:
            if self.failure is not None:
                raise self.failure
            return await request(*arguments)

        return maybe


@pytest.fixture
def service(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose refusals are told at once: nobody waits for an answer."""
    monkeypatch.setattr("singleton.cli.silence.READING", 0.0)
    for module in ("view_commands", "container_commands"):
        monkeypatch.setattr(f"singleton.cli.{module}.READING", 0.0)
    monkeypatch.setattr("singleton.locking.line._TRY_ONCE", 0.05)
    return Service(thread, monkeypatch)


def a_turn(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> None:
    """Do one thing at each pause, and press Ctrl-C at the one after the last."""
    left = iter(steps)

    def pause(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("time.sleep", pause)


# --- what only reads --------------------------------------------------------------------------------------------------


@virtual
async def test_a_command_that_reads_asks_for_fifteen_seconds_at_most() -> None:
    network = Network()

    async def away(*_: object) -> None:
        raise AWAY

    network.page = away  # type: ignore[assignment, method-assign]
    with pytest.raises(StorageUnavailable, match="does not answer as it should"):
        await next_page(network, "webjobshost", "", None, answer=silence.READING)
    assert 5 < now() <= 15


@pytest.mark.parametrize("command", [["list"], ["show", SHIP], ["break", SHIP], ["sweep", "--older-than", "7d"]])
def test_that_is_the_time_that_commands_give_it(
    locks: Command, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    given: list[float] = []

    async def silent(*_: object, answer: float, **__: object) -> None:
        given.append(answer)
        raise AWAY

    monkeypatch.setattr(container_module, "answered", silent)
    assert locks(*command) == 3
    assert given == [15.0]
    assert "does not answer as it should" in locks.err
    assert "locked" not in locks.err.replace(SHIP, "")


def test_silence_is_told_after_two_seconds_once_for_each_thing_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class AtOnce(threading.Timer):
        def start(self) -> None:
            after.append(self.interval)
            self.function()

    after: list[float] = []
    monkeypatch.setattr("threading.Timer", AtOnce)
    for _ in range(2):
        with pytest.raises(StorageUnavailable), silence_told("https://x"):
            raise StorageUnavailable("away")
        assert capsys.readouterr().err == "https://x has not answered for 2 s; asking again\n"
    assert after == [2, 2]


# --- watch and hold go on ---------------------------------------------------------------------------------------------


def test_an_outage_is_told_with_pauses_that_double_up_to_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = 0
    monkeypatch.setattr("time.monotonic", lambda: float(second))
    outage = Outage(AnswerWatch("https://x"))
    told: list[int] = []
    for second in range(300):
        outage.goes_on(StorageUnavailable("away"))
        if capsys.readouterr().err:
            told.append(second)
    assert told == [0, 2, 6, 14, 30, 62, 122, 182, 242]
    outage.is_over()
    assert capsys.readouterr().err == "the storage answers again, after 4 min 59 s\n"
    outage.is_over()
    assert capsys.readouterr().err == ""


def test_watching_goes_on_through_an_outage_and_says_so(
    thread: LockThread, locks: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        service.failure = AWAY

    def denies() -> None:
        service.failure = DENIED

    def heals() -> None:
        service.failure = None
        thread.taken_by_another_process(SHIP)

    a_turn(monkeypatch, fails, denies, heals)
    seen = locks.lines("watch", code=130)
    assert [(each["seen"], each["lock"]["name"]) for each in seen] == [("got", SHIP)]
    assert "the storage does not answer as it should (503 ServerBusy); asking again" in locks.err
    assert "the storage answers again" in locks.err


def test_who_may_not_look_at_all_is_told_at_once(locks: Command, service: Service) -> None:
    service.failure = DENIED
    assert locks("watch") == 3
    assert "denies access" in locks.err


def test_holding_goes_on_through_an_outage_before_it_has_the_lock(
    thread: LockThread, locks: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, SHIP)
    service.failure = AWAY
    a_turn(monkeypatch, lambda: None, lambda: setattr(service, "failure", None))
    assert locks("hold", SHIP, "--reason", "x", "--for", "0s") == 0
    assert locks.out == f"{SHIP} held; Ctrl-C gives it back\n{SHIP} given back\n"
    assert locks.err.count("asking again, Ctrl-C ends it") == 1
    assert "the storage answers again" in locks.err


@pytest.mark.parametrize("failure", [AWAY, DENIED, StoreFailure(404, "AccountNotFound")])
def test_holding_asks_on_after_the_lock_was_lost_whatever_the_storage_says(
    thread: LockThread, locks: Command, service: Service, monkeypatch: pytest.MonkeyPatch, failure: StoreFailure
) -> None:
    stamped(thread, SHIP)
    losses = iter([True])

    def lost_once(*_: object) -> bool:
        for lost in losses:
            thread.do(lambda: thread.memory.break_(SHIP))
            service.failure = failure
            return lost
        raise KeyboardInterrupt

    monkeypatch.setattr("singleton.base.hold.LossSignal.wait", lost_once)
    heals = itertools.chain([lambda: None] * 2, [lambda: setattr(service, "failure", None)], [lambda: None] * 50)
    a_turn(monkeypatch, *heals)
    told = locks.lines("hold", SHIP, "--reason", "x", "--timeout", "0s", code=130)
    assert [each["state"] for each in told] == ["held", "lost", "held", "given back"]
    assert "asking again" in locks.err


def test_who_may_not_hold_it_at_all_is_told_at_once(thread: LockThread, locks: Command, service: Service) -> None:
    service.failure = DENIED
    assert locks("hold", SHIP, "--reason", "x", "--new") == 3
    assert "denies access" in locks.err


def test_a_time_out_ends_the_asking_of_storage_that_does_not_answer(locks: Command, service: Service) -> None:
    service.failure = AWAY
    assert locks("hold", SHIP, "--reason", "x", "--timeout", "0s") == 3
    assert "does not answer as it should" in locks.err


def test_what_is_logged_beneath_is_not_written_as_well(
    thread: LockThread, locks: Command, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody configures logging, Python writes warnings on the error stream: of this package, of the SDK."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def log(*_: object) -> None:
        for name in ("singleton", "azure.identity"):
            logging.getLogger(name).warning("DefaultAzureCredential failed to retrieve a token")

    monkeypatch.setattr("singleton.cli.view_commands.block", log)
    stamped(thread, SHIP)
    assert locks("show", SHIP) == 0
    assert locks.err == ""


def test_who_is_not_signed_in_is_told_how(locks: Command, service: Service) -> None:
    service.failure = DENIED
    for command in (["list"], ["hold", SHIP, "--reason", "x", "--new"]):
        assert locks(*command, "--account", "orders") == 3
        assert locks.err.count("sign in (`az login`)") == 1
    assert locks("list") == 3
    assert "sign in" not in locks.err


# --- as JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "failure", "code"),
    [
        (["list"], AWAY, 3),
        (["show", SHIP], DENIED, 3),
        (["show", SHIP], None, 2),
        (["watch"], DENIED, 3),
        (["break", SHIP], AWAY, 3),
        (["hold", SHIP, "--reason", "x"], DENIED, 3),
        (["sweep", "--older-than", "7d"], AWAY, 3),
        (["sweep", "--older-than", "7d"], StoreFailure(404, "ContainerNotFound"), 2),
        (["lift-epochs"], AWAY, 3),
        (["list", "--older-than", "soon"], None, 2),
        (["nonsense"], None, 2),
    ],
)
def test_an_error_is_an_object_with_its_words_and_the_exit_code(
    locks: Command, service: Service, command: list[str], failure: StoreFailure | None, code: int
) -> None:
    service.failure = failure
    error = locks.json(*command, code=code)
    assert set(error) == {"error", "exit"}
    assert error["exit"] == code
    assert error["error"] in locks.err


def test_a_listing_that_is_broken_off_stays_a_list_of_what_was_read(
    thread: LockThread, locks: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped(thread, SHIP)
    page = thread.memory.page

    async def then_away(prefix: str, marker: str | None, most: int) -> Any:
        if marker is not None:
            raise DENIED
        found = await page(prefix, marker, most)
        return type(found)(entries=found.entries, marker="more", at=found.at)

    monkeypatch.setattr(thread.memory, "page", then_away)
    assert locks("list", "--json") == 3
    assert [lock["name"] for lock in json.loads(locks.out)] == [SHIP]
    assert "denies access" in locks.err


@pytest.mark.parametrize("command", [["sweep", "--older-than", "7d"], ["lift-epochs"]])
def test_where_there_is_no_container_nothing_is_counted(locks: Command, service: Service, command: list[str]) -> None:
    service.failure = StoreFailure(404, "ContainerNotFound")
    assert locks(*command) == 2
    assert locks.out == ""
    assert "there is no container" in locks.err


def test_a_misspelt_section_is_told_before_the_wrong_container_is_read(
    thread: LockThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: Command
) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0", "singelton": {"container": "orders"}}')
    monkeypatch.setenv("AzureFunctionsJobHost__singletons__container", "orders")
    assert locks.json("list") == []
    assert [place.container for place in thread.places] == ["webjobshost"]
    section, setting, *_ = locks.err.splitlines()
    assert section.endswith("has the section \"singelton\", which nothing reads; did you mean 'singleton'?")
    assert setting.endswith("did you mean 'AzureFunctionsJobHost__singleton__container'?")
