"""WebJobs' own end-to-end tests of singletons, in real host processes on Azurite. Upstream they are skipped (W-91)."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from azure.storage.blob import BlobServiceClient

from tests.integration.hosts import Queue, RunningHost, hosts, seen, wait_until, write_app

if TYPE_CHECKING:
    from pathlib import Path

SINGLETON = {"listenerLockPeriod": "00:00:15", "listenerLockRecoveryPollingInterval": "00:00:15"}


def lock_blobs(storage: str, host: RunningHost) -> dict[str, tuple[str, str]]:
    """Return state and metadata's owner of the lock blobs of a host, by their name behind its folder."""
    folder = f"locks/{json.loads(host.config.read_text())['lock_host_id']}/"
    with BlobServiceClient.from_connection_string(storage, retry_total=0) as service:
        blobs = service.get_container_client("azure-webjobs-hosts").list_blobs(folder, include=["metadata"])
        return {
            blob.name.removeprefix(folder): (str(blob.lease.state), (blob.metadata or {}).get("FunctionInstance", ""))
            for blob in blobs
        }


def overlaps(spans: list[tuple[float, float]]) -> int:
    return sum(later[0] < earlier[1] for earlier, later in pairwise(sorted(spans)))


def spans(app: Path, kind: str) -> dict[Any, list[tuple[float, float]]]:
    found: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for what, key, began, ended in seen(app):
        if what == kind:
            found[key].append((began, ended))
    return found


def test_twenty_messages_over_three_zones_in_three_hosts(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    """W-43, W-45, W-57, W-89."""
    code = r"""
    @app.queue_trigger(arg_name="msg", queue_name="%QUEUE%", connection="AzureWebJobsStorage")
    @singleton(scope_id=r"{Region}\{Zone}", layout="webjobs")
    def by_zone(msg: func.QueueMessage) -> None:
        began = time.monotonic()
        time.sleep(0.1)
        seen("zone", msg.get_json()["Zone"], began, time.monotonic())
    """
    app = write_app(tmp_path / "app", code)
    with Queue(connection_string, container_name) as queue:
        queue.create().send(*({"Region": "Central", "Zone": number % 3} for number in range(20)))
        with hosts(
            app, connection_string, tmp_path, count=3, environment={"QUEUE": container_name}, visibility=20.0
        ) as running:
            wait_until(lambda: len(seen(app)) == 20, within=60)
            zones = spans(app, "zone")
            assert sorted(zones) == [0, 1, 2]
            assert all(overlaps(each) == 0 for each in zones.values())
            assert overlaps([span for each in zones.values() for span in each]) > 0
            assert [host.stop() for host in running] == [0] * 3
            blobs = lock_blobs(connection_string, running[0])
    names = [f"Host.Functions.by_zone.Central/{zone}" for zone in range(3)]
    assert sorted(blobs) == names
    assert all(state == "available" and owner for state, owner in blobs.values())


def test_of_three_hosts_each_listener_runs_in_one_until_it_stops(
    tmp_path: Path, connection_string: str, container_name: str
) -> None:
    """W-15, W-90, W-91, W-111: the leases are held from the first invocation on, by one host each.

    A host kills its workers at its end (H-89): the listeners' leases are not given back, and lapse.
    """
    code = """
    @app.queue_trigger(arg_name="msg", queue_name="%QUEUE%", connection="AzureWebJobsStorage")
    @singleton(scope_id="TestScope", layout="webjobs")
    @singleton(mode="listener", scope_id="%SCOPE%", layout="webjobs")
    def both(msg: func.QueueMessage) -> None:
        began = time.monotonic()
        time.sleep(0.05)
        seen("both", os.getpid(), began, time.monotonic())

    @app.timer_trigger(arg_name="timer", schedule="* * * * * *")
    @singleton(mode="listener", layout="webjobs")
    def tick(timer: func.TimerRequest) -> None:
        seen("tick", os.getpid(), 0, 0)
    """
    app = write_app(tmp_path / "app", code, singleton=SINGLETON)
    environment = {"QUEUE": container_name, "SCOPE": "TestScopeTestValue"}
    listeners = ("Host.Functions.both.TestScopeTestValue.Listener", "Host.Functions.tick.Listener")
    with Queue(connection_string, container_name) as queue:
        queue.create().send(*({"number": number} for number in range(10)))
        with hosts(app, connection_string, tmp_path, count=3, environment=environment, visibility=20.0) as running:
            wait_until(lambda: sum(map(len, spans(app, "both").values())) >= 10, within=90)
            wait_until(lambda: sum(map(len, spans(app, "tick").values())) >= 5, within=30)
            during = lock_blobs(connection_string, running[0])
            assert [host.stop() for host in running] == [0] * 3
            after = lock_blobs(connection_string, running[0])
    both, tick = spans(app, "both"), spans(app, "tick")
    assert len(both) == len(tick) == 1, "a listener ran in two hosts"
    assert overlaps(*both.values()) == 0
    assert [during[name] for name in listeners] == [("leased", "")] * 2
    assert sorted(after) == sorted([*listeners, "Host.Functions.both.TestScope"])
    assert [after[name][0] for name in listeners] == ["leased", "leased"]
    assert after["Host.Functions.both.TestScope"][0] == "available"
