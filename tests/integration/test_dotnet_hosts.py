"""One lock, two runtimes: functions of ours in processes of their own, and hosts that do what .NET's do (issue 5)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockClient, SingletonOptions
from tests.integration.dotnet import DequeueableHost, Journal, WebJobsHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., "Worker"]

ROOT = Path(__file__).resolve().parents[2]
FUNCTION = "ShipOrders"
ROUNDS = 8
POLLING = "AzureFunctionsJobHost__singleton__lockAcquisitionPollingInterval"
WORKER = """
import json, random, sys, time, uuid
from pathlib import Path
from singleton import LockNotAcquired, current_hold, singleton
from tests.integration.dotnet import Journal

who, journal, arguments, rounds = sys.argv[1], Journal(Path(sys.argv[2])), json.loads(sys.argv[3]), int(sys.argv[4])

class Context:
    function_name = "ShipOrders"
    def __init__(self):
        self.invocation_id = str(uuid.uuid4())

@singleton(**arguments)
def ship(msg):
    journal.note("enter", who)
    print(json.dumps({"lock": current_hold().lock, "token": current_hold().token}), flush=True)
    if rounds == 0:
        sys.stdin.readline()
    time.sleep(random.uniform(0.01, 0.06))
    journal.note("leave", who)

def invoke(body):
    context = Context()
    try:
        ship(msg=body, context=context)
    except LockNotAcquired as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return False
    print(json.dumps({"owner": context.invocation_id}), flush=True)
    return True

print(json.dumps({"ready": who}), flush=True)
for body in sys.stdin.readline().strip().split("\\t"):
    left = max(rounds, 1)
    while left:
        if invoke(body):
            left -= 1
        elif arguments.get("on_contention") == "raise":
            break
        time.sleep(random.uniform(0, 0.03))
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def host_id() -> str:
    """A host id of this test's own: the container is everybody's."""
    return f"h{uuid.uuid4().hex[:20]}"


@pytest.fixture
def webjobs(connection_string: str) -> Iterator[WebJobsHost]:
    host = WebJobsHost(connection_string)
    yield host
    host.close()


class Worker:
    """A process with a function of ours, whose invocations it runs one after the other."""

    def __init__(self, who: str, journal: Journal, settings: dict[str, str], rounds: int, **arguments: Any) -> None:
        self.who = who
        folder = journal.path.parent / "app"
        folder.mkdir(exist_ok=True)
        (folder / "host.json").write_text('{"version": "2.0"}')
        own = {"AzureWebJobsScriptRoot": str(folder), POLLING: "00:00:00.5"}
        command = [sys.executable, "-c", WORKER, who, str(journal.path), json.dumps(arguments), str(rounds)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | own | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def stop(self) -> None:
        """End what a failed test left running."""
        self.process.kill()
        self.process.communicate()

    def begin(self, *bodies: str) -> None:
        assert self.line() == {"ready": self.who}
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(bodies) + "\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> list[dict[str, Any]]:
        out, _ = self.process.communicate(timeout=250)
        assert self.process.returncode == 0
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def start(journal: Journal) -> Iterator[Start]:
    workers: list[Worker] = []

    def begin(who: str, settings: dict[str, str], rounds: int, **arguments: Any) -> Worker:
        workers.append(Worker(who, journal, settings, rounds, **arguments))
        return workers[-1]

    yield begin
    for worker in workers:
        if worker.process.poll() is None:
            worker.stop()


def settings_for(connection_string: str, host_id: str, **more: str) -> dict[str, str]:
    return {"AzureWebJobsStorage": connection_string, "AzureFunctionsWebHost__hostid": host_id, **more}


def in_threads(*jobs: Any) -> None:
    """Run jobs side by side; raise what one of them raised."""
    errors: list[BaseException] = []

    def run(job: Any) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]


def test_a_webjobs_host_and_ours_are_never_inside_at_once(
    connection_string: str, host_id: str, webjobs: WebJobsHost, journal: Journal, start: Start
) -> None:
    """W-52 to W-60, X-1."""
    lock_id = f"{host_id}/Host.Functions.{FUNCTION}.42"
    settings = settings_for(connection_string, host_id)
    ours = [start(f"ours-{nth}", settings, ROUNDS, layout="webjobs", scope="Id") for nth in range(2)]

    def dotnet(who: str) -> None:
        for _ in range(ROUNDS):
            lease = webjobs.lock(lock_id, str(uuid.uuid4()), polling=0.1)
            journal.note("enter", who)
            time.sleep(random.uniform(0.01, 0.06))
            journal.note("leave", who)
            webjobs.release(lease)
            time.sleep(random.uniform(0, 0.03))

    for worker in ours:
        worker.begin('{"Id": 42}')
    in_threads(lambda: dotnet("net-0"), lambda: dotnet("net-1"))
    said = [worker.end() for worker in ours]
    assert journal.overlaps() == []
    entered = [who for _, what, who in journal.entries() if what == "enter"]
    assert {who: entered.count(who) for who in entered} == dict.fromkeys(("ours-0", "ours-1", "net-0", "net-1"), ROUNDS)
    assert len(set(pairwise(entered))) > 4, "they took turns"
    for lines in said:
        assert {line["lock"] for line in lines if "lock" in line} == {f"locks/{lock_id}"}
        assert {line["token"] for line in lines if "lock" in line} == {None}


def test_after_ours_the_blob_is_as_a_webjobs_host_leaves_it(
    connection_string: str, host_id: str, webjobs: WebJobsHost, start: Start
) -> None:
    """W-46, W-57: a block blob of no bytes, free, with the invocation as its owner and nothing else."""
    lock_id = f"{host_id}/Host.Functions.{FUNCTION}"
    worker = start("ours", settings_for(connection_string, host_id), 1, layout="webjobs")
    worker.begin("")
    owner = worker.end()[-1]["owner"]
    properties = webjobs.blob(lock_id).get_blob_properties()
    assert properties.metadata == {"FunctionInstance": owner}
    assert (properties.blob_type, properties.size) == ("BlockBlob", 0)
    assert (properties.lease.state, properties.lease.status) == ("available", "unlocked")
    assert webjobs.owner(lock_id) is None


@pytest.mark.slow
def test_while_ours_is_inside_a_webjobs_host_sees_who(
    connection_string: str, host_id: str, webjobs: WebJobsHost, start: Start
) -> None:
    """W-81; and once ours is killed it waits for no more than the lease."""
    lock_id = f"{host_id}/Host.Functions.{FUNCTION}"
    worker = start("ours", settings_for(connection_string, host_id), 0, layout="webjobs")
    worker.begin("")
    worker.line()
    assert str(uuid.UUID(webjobs.owner(lock_id))) == webjobs.owner(lock_id)
    assert webjobs.try_lock(lock_id, "net") is None
    worker.process.kill()
    worker.process.communicate()
    died = time.monotonic()
    lease = webjobs.lock(lock_id, "net", polling=0.1)
    assert 5 < time.monotonic() - died < 16 + 15
    webjobs.release(lease)


def test_a_listener_of_dotnet_and_ours_exclude_one_another(
    connection_string: str, host_id: str, webjobs: WebJobsHost, start: Start
) -> None:
    """W-33, W-58: none of them leaves an owner."""
    lock_id = f"{host_id}/Host.Functions.{FUNCTION}.Listener"
    settings = settings_for(connection_string, host_id)
    theirs = webjobs.lock(lock_id, None, polling=0.1)
    refused = start("ours-0", settings, 1, layout="webjobs", mode="listener", on_contention="raise")
    refused.begin("{}")
    assert ["refused" in line for line in refused.end()] == [True]
    webjobs.release(theirs)
    leads = start("ours-1", settings, 0, layout="webjobs", mode="listener", on_contention="raise")
    leads.begin("{}")
    assert leads.line()["lock"] == f"locks/{lock_id}"
    assert webjobs.try_lock(lock_id, None) is None
    leads.end()
    after = webjobs.try_lock(lock_id, None)
    assert after is not None
    webjobs.release(after)
    assert webjobs.blob(lock_id).get_blob_properties().metadata == {}


def test_scopes_of_all_kinds_mean_the_blob_that_they_mean_in_dotnet(
    connection_string: str, host_id: str, webjobs: WebJobsHost, journal: Journal, start: Start
) -> None:
    scopes = ["42", "north\\3", "a//b", "é😀 +%2F?#", "Acme Inc.", "x/", "x\\", "~", "Yes", "a:b&c=d", "%2e%2e/y"]
    leases = [webjobs.try_lock(f"{host_id}/Host.Functions.{FUNCTION}.{scope}", None) for scope in scopes]
    taken = [lease is not None for lease in leases]
    assert taken == [True] * len(scopes)
    worker = start(
        "ours",
        settings_for(connection_string, host_id),
        1,
        layout="webjobs",
        scope="Id",
        on_contention="raise",
    )
    worker.begin(*(json.dumps({"Id": scope}) for scope in scopes))
    assert ["refused" in line for line in worker.end()] == taken
    assert journal.entries() == []
    for lease in filter(None, leases):
        webjobs.release(lease)


def test_a_compiled_c_sharp_function_excludes_ours_by_its_full_name_alone(
    connection_string: str, host_id: str, webjobs: WebJobsHost, start: Start
) -> None:
    """W-32: without the name it is another function's lock."""
    settings = settings_for(connection_string, host_id)
    ours: dict[str, Any] = {"layout": "webjobs", "scope": "Id", "on_contention": "raise"}
    lease = webjobs.try_lock(f"{host_id}/Contoso.Shop.Orders.Ship.42", None)
    assert lease is not None
    named = start("named", settings, 1, dotnet_name="Contoso.Shop.Orders.Ship", **ours)
    unnamed = start("unnamed", settings, 1, **ours)
    for worker in (named, unnamed):
        worker.begin('{"Id": 42}')
    assert ["refused" in line for line in named.end()] == [True]
    assert not any("refused" in line for line in unnamed.end())
    webjobs.release(lease)


def test_the_holder_of_a_webjobs_lock_is_its_function_instance(
    connection_string: str, host_id: str, webjobs: WebJobsHost
) -> None:
    """W-81."""
    lock_id = f"{host_id}/Host.Functions.{FUNCTION}"
    with LockClient(connection_string, options=SingletonOptions(container="azure-webjobs-hosts")) as client:
        assert client.holder(f"locks/{lock_id}") is None
        lease = webjobs.lock(lock_id, "0f8fad5b-d9cb-469f-a165-70867728950e", polling=0.1)
        found = client.holder(f"locks/{lock_id}")
        assert found is not None
        assert (found.owner, found.host, found.token) == ("0f8fad5b-d9cb-469f-a165-70867728950e", None, None)
        webjobs.release(lease)
        assert client.holder(f"locks/{lock_id}") is None


def test_a_dequeueable_host_and_ours_are_never_inside_at_once(
    connection_string: str, container_name: str, host_id: str, journal: Journal, start: Start
) -> None:
    """D-18, D-24 to D-28: two functions of ours, of two apps, and two hosts of theirs."""
    theirs = DequeueableHost(connection_string, container_name)
    section = {
        "Scope": "Order:Id",
        "ContainerName": container_name,
        "MinimumPollingIntervalInSeconds": "0",
        "MaximumPollingIntervalInSeconds": "1",
        "MaxRetries": "10",
    }
    more = {f"Dequeueable__Singleton__{key}": value for key, value in section.items()}
    apps = [settings_for(connection_string, f"{host_id}-{nth}", **more) for nth in range(2)]
    ours = [start(f"ours-{nth}", app, ROUNDS, layout="dequeueable") for nth, app in enumerate(apps)]

    def dotnet(who: str) -> None:
        for _ in range(ROUNDS):
            lease = theirs.lock("419", polling=0.1)
            journal.note("enter", who)
            time.sleep(random.uniform(0.01, 0.06))
            theirs.renew(lease, "419")
            journal.note("leave", who)
            theirs.release(lease)
            time.sleep(random.uniform(0, 0.03))

    for worker in ours:
        worker.begin('{"Order": {"Id": 419}}')
    in_threads(lambda: dotnet("net-0"), lambda: dotnet("net-1"))
    said = [worker.end() for worker in ours]
    assert journal.overlaps() == []
    entered = [who for _, what, who in journal.entries() if what == "enter"]
    assert {who: entered.count(who) for who in entered} == dict.fromkeys(("ours-0", "ours-1", "net-0", "net-1"), ROUNDS)
    assert len(set(pairwise(entered))) > 4, "they took turns"
    tokens = sorted(line["token"] for lines in said for line in lines if "lock" in line)
    assert len(tokens) == len(set(tokens)) == 2 * ROUNDS
    assert {line["lock"] for lines in said for line in lines if "lock" in line} == {"419"}
    assert theirs.blob("419").get_blob_properties().size == 0
    theirs.close()
