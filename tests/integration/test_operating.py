"""On call, at 3 a.m.: processes hang inside locks of real storage; ``singleton-locks`` finds, tells and frees them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import BlobServiceClient

from singleton import AsyncLockClient, Hold, Lifted, LockClient, SingletonOptions
from singleton.base.errors import ConfigurationError
from singleton.cli.main import run
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from singleton.operating.container_pass import Pace, Sweep
from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from tests.support.lock_thread import an_app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
VICTIM = """
import json, sys, time
from singleton import current_hold, singleton

def say(**what):
    print(json.dumps({**what, "at": time.monotonic()}), flush=True)

@singleton(scope="Id")
def ship(msg: str) -> None:
    hold = current_hold()
    say(said="inside", token=hold.token)
    if "hung" in msg:
        hold.lost.wait(60)  # told by the lock thread, while its body hangs
    else:
        sys.stdin.readline()  # stopped here, and woken up
    say(said="lost", lost=hold.lost.is_set(), reason=hold.lost.reason)
    say(said="write", token=hold.token)

class Context:
    invocation_id, function_name, thread_local_storage = sys.argv[2], "ship", None

ship(msg=sys.argv[1], context=Context())
"""


@pytest.fixture
def options(
    connection_string: str, container_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SingletonOptions:
    """The options of an app in this folder, with its settings in the environment."""
    an_app(tmp_path, monkeypatch, json.dumps({"version": "2.0", "singleton": {"container": container_name}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AzureWebJobsStorage", connection_string)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return SingletonOptions(container=container_name, lock_acquisition_polling_interval=0.5)


@pytest.fixture
def locks(options: SingletonOptions) -> Iterator[LockClient]:
    with LockClient(options=options) as client:
        yield client


class Victim:
    """A process whose guarded function is inside its lock."""

    def __init__(self, scope: str) -> None:
        command = [sys.executable, "-W", "ignore", "-c", VICTIM, json.dumps({"Id": scope}), f"inv-{scope}"]
        self.process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
        self.token = int(self.says()["token"])

    def says(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the victim ended"
        said: dict[str, Any] = json.loads(line)
        return said


def command(*arguments: str) -> str:
    """Run ``singleton-locks`` as an operator does; return what it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "singleton", *arguments], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Resource:
    """What the locks guard: it refuses a smaller token than it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def write(self, token: int) -> bool:
        accepted, self.seen = token >= self.seen, max(token, self.seen)
        return accepted


@pytest.mark.slow
@pytest.mark.process
def test_a_process_that_hangs_and_one_that_is_stopped_are_found_told_and_freed_in_under_a_minute(
    locks: LockClient,
) -> None:
    with ThreadPoolExecutor(4) as pool:
        hung, stopped = pool.map(Victim, ["hung", "stopped"])
        stopped.process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        found = {lock["scope"][0]: lock for lock in json.loads(command("list", "--held", "--json"))}
        for victim, scope in ((hung, "hung"), (stopped, "stopped")):
            assert found[scope]["function"] == "ship"
            assert found[scope]["holder"]["pid"] == victim.process.pid
            assert found[scope]["holder"]["instance"]
            assert found[scope]["holder"]["invocation"] == f"inv-{scope}"
            assert found[scope]["holder"]["recorded"]
        assert found["hung"]["name"] == locks.lock_name("ship", "hung")

        entered: dict[str, float] = {}

        def wait(scope: str) -> Hold:
            hold = locks.acquire(locks.lock_name("ship", scope), timeout=60, owner="next")
            entered[scope] = time.monotonic()
            return hold

        waiting = {scope: pool.submit(wait, scope) for scope in found}
        for lock in found.values():
            broken = json.loads(command("break", lock["name"], "--json"))
            assert broken["broken"]
            assert broken["together"] == 0
        holds = {scope: each.result(60) for scope, each in waiting.items()}
        freed = time.monotonic() - start
        stopped.process.send_signal(signal.SIGCONT)
        assert stopped.process.stdin is not None
        stopped.process.stdin.write("\n")
        stopped.process.stdin.flush()
    assert freed < 60
    for victim, scope, reasons in ((hung, "hung", {"broken"}), (stopped, "stopped", {"expired", "stolen", "broken"})):
        resource = Resource()
        token = holds[scope].token
        assert token is not None
        assert resource.write(token)
        told, late = victim.says(), victim.says()
        assert told["lost"], scope
        assert told["reason"] in reasons
        assert scope == "stopped" or told["at"] < entered[scope], "nobody gets in before its hold is lost"
        assert not resource.write(late["token"]), "its late write is refused"
        _, errors = victim.process.communicate(timeout=60)
        assert "LockLost" in errors, "its invocation fails"
        locks.release(holds[scope])


@pytest.mark.process
def test_an_operator_keeps_a_lock_until_the_command_is_ended(locks: LockClient) -> None:
    arguments = ["hold", "nightly", "--reason", "it pays twice", "--new"]
    with subprocess.Popen(
        [sys.executable, "-m", "singleton", *arguments], stdout=subprocess.PIPE, text=True
    ) as keeping:
        assert keeping.stdout is not None
        assert "held" in keeping.stdout.readline()
        held = locks.holder("nightly")
        assert held is not None
        assert (held.owner, held.pid) == ("operator: it pays twice", keeping.pid)
        with locks.try_lock("nightly") as hold:
            assert hold is None
        keeping.terminate()
        assert keeping.wait(60) == 128 + signal.SIGTERM
    with locks.try_lock("nightly") as hold:
        assert hold is not None


def test_what_a_client_lists_and_breaks_there(locks: LockClient, container_name: str) -> None:
    name = locks.lock_name("ship", ["a b", "ä/"])
    with locks.lock(name, owner="me") as hold, locks.lock("reports"):
        ship, reports = locks.locks()
        assert (ship.name, ship.app, ship.function, ship.scope) == (name, "app", "ship", ("a b", "ä/"))
        assert ship.holder is not None
        assert (ship.holder.owner, ship.holder.pid, ship.holder.token) == ("me", os.getpid(), hold.token)
        assert (reports.app, reports.function, reports.held) == (None, None, True)
        broken = locks.break_(name, notice=10)
        assert broken is not None
        assert 9 <= broken.free_in <= 10
        assert 0 < broken.together <= 5
        assert next(locks.locks(prefix=name)).state == "breaking"
    assert [lock.name for lock in locks.locks(held=True)] == []


async def test_the_asynchronous_client_lists_the_same(options: SingletonOptions) -> None:
    client = AsyncLockClient(options=options)
    async with client.lock("one"), client.lock("two"):
        assert [lock.name async for lock in client.locks()] == ["one", "two"]
        assert await client.lift_epochs(dry_run=True) == Lifted(held=2)
        with pytest.raises(ConfigurationError, match="notice is 61"):
            await client.break_("one", 61)


def test_after_a_restore_epochs_are_lifted_above_all_that_were_given(
    locks: LockClient, connection_string: str, container_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with locks.lock("reports") as before, locks.lock("held"):
        pass
    with BlobServiceClient.from_connection_string(connection_string) as service:
        blob = service.get_blob_client(container_name, "reports")
        restored = {**blob.get_blob_properties().metadata, "SingletonEpoch": "7"}
        blob.set_blob_metadata(restored)
    with locks.lock("held"):
        assert run(["lift-epochs", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["held"] == 1
    with locks.lock("reports") as after:
        assert after.token is not None
        assert before.token is not None
        assert after.token > before.token
    assert locks.lift_epochs() == Lifted(lifted=2)


def test_azurite_is_healthy(options: SingletonOptions, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {found["outcome"] for found in report["findings"]} == {"ok"}
    assert run(["doctor", "--scratch", options.container]) == 2, "there is no such container"
    with LockClient(options=options).lock("beside"):
        assert run(["doctor", "--scratch", options.container]) == 0
    assert [lock.name for lock in LockClient(options=options).locks()] == ["beside"]


async def test_a_sweep_through_locks_in_use_costs_nobody_a_hold(connection_string: str, container_name: str) -> None:
    """All are swept as if they were old, again and again and without a rest, while some are used."""
    account = StorageAccount(connection_string)
    inside: set[str] = set()
    deleted = 0
    async with (
        aclosing(open_container(account, container_name)) as store,
        aclosing(open_container(account, container_name)) as operator,
    ):
        await store.create("locks/app/first")
        ends = asyncio.get_running_loop().time() + 3

        async def use(number: int) -> None:
            rng = random.Random(number)
            timing = Timing(poll_min=0.01, poll_max=0.1, handoff_window=0.1)
            names = [f"locks/app/job.{each}" for each in range(6)]
            stamps = ["token", "none"]
            mine = [
                Lock(store, name, timing=timing, rng=rng, stamp=stamps[each % 2])  # type: ignore[arg-type]
                for each, name in enumerate(names)
            ]
            while asyncio.get_running_loop().time() < ends:
                lock = rng.choice(mine)
                hold = await lock.acquire()
                assert lock.name not in inside
                inside.add(lock.name)
                await asyncio.sleep(rng.uniform(0, 0.02))
                inside.discard(lock.name)
                assert not hold.lost.is_set()
                await release(hold)

        async def sweep() -> None:
            nonlocal deleted
            while asyncio.get_running_loop().time() < ends:
                sweeping = Sweep(operator, container_name, older_than=60)
                sweeping._older_than = -60.0
                sweeping._pace = Pace(0.0)
                while await sweeping.go_on():
                    pass
                deleted += sweeping.result.swept

        await asyncio.gather(sweep(), *(use(number) for number in range(4)))
    assert deleted > 10
