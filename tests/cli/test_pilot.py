"""``singleton-sim pilot`` on an emulator: what it says, asks and writes, and that its container goes with it."""

from __future__ import annotations

import functools
import io
import json
import re
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import BlobServiceClient

from simulator import pilot_cli
from simulator.cli import main
from simulator.pilot import container, pilot_time
from simulator.pilot.container import PREFIX
from simulator.proxy.actions import Answer, Hang
from singleton.base.errors import ConfigurationError
from singleton.locking.holder import answered
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.recording_proxy import ProxyThread, on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.running import Sim

NOWHERE = "DefaultEndpointsProtocol=http;AccountName=orders;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:9/orders"


def containers(storage: str) -> list[str]:
    with BlobServiceClient.from_connection_string(storage) as service:
        return [each.name for each in service.list_containers(name_starts_with=PREFIX)]


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code and what it said."""
    with pytest.raises(SystemExit) as caught:
        main(["pilot", *arguments])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert isinstance(caught.value.code, int)
    return caught.value.code, said.out, said.err


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # aiohttp, of what the SDK does
def test_it_tries_an_account_and_tells_what_it_could_not_see_and_leaves_nothing(
    storage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = urlsplit(StorageAccount(storage).endpoint).port
    assert port is not None
    with ProxyThread(port) as proxy:
        proxy.add(on("account properties"), Answer(403, "AuthorizationPermissionMismatch"))
        proxy.add(on("renew"), Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=2)
        proxy.add(on("list"), Answer(403, "AuthorizationPermissionMismatch"), uses=1)
        monkeypatch.setenv("PILOT", proxy.connection_string(storage))
        page, data = tmp_path / "pilot.html", tmp_path / "pilot.json"
        code, out, _ = ended(
            capsys, "--connection", "PILOT", "--for", "10s", "--yes", "--json", str(data), "--report", str(page)
        )
    assert code == pilot_cli.UNKNOWN
    assert "may not list containers" in out
    assert re.search(r"about [\d,]+ requests, or 0.01 dollars", out)
    told = json.loads(data.read_text())
    findings = {part["part"]: part["findings"] for part in told["parts"]}
    assert told["outcome"] == "unknown"
    assert [each["said"].partition(":")[0] for each in findings["account"] if each["outcome"] == "unknown"] == [
        "hierarchy"
    ]
    assert findings["assumptions, direct"] == findings["assumptions, sdk"] == []
    assert "ServerBusy" in findings["throttling"][0]["said"]
    assert "renew, sdk" in out
    assert {each["way"] for each in told["latencies"]} == {"direct", "sdk"}
    assert 1500 < told["requests"] < 3000
    for text in (data.read_text(), page.read_text("utf-8")):
        assert "devstoreaccount1" not in text
        assert "account-1" in text or text.startswith("<")
    assert containers(storage) == []


@pytest.mark.parametrize("after", [40, 1500])
def test_a_storage_that_dies_in_the_midst_ends_it_with_a_report_of_what_was_seen(
    storage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: int
) -> None:
    monkeypatch.setattr(pilot_time, "SILENT", 2.0)
    monkeypatch.setattr(container, "_asked", functools.partial(answered, call=1.0, answer=1.0))
    port = urlsplit(StorageAccount(storage).endpoint).port
    assert port is not None
    page, data = tmp_path / "pilot.html", tmp_path / "pilot.json"
    with ProxyThread(port) as proxy:
        proxy.add(on(), Hang(), skip=after)
        monkeypatch.setenv("PILOT", proxy.connection_string(storage))
        files = ("--json", str(data), "--report", str(page))
        code, out, err = ended(capsys, "--connection", "PILOT", "--for", "10m", "--yes", *files)
    told = json.loads(data.read_text())
    assert (code, told["outcome"], "had answered nothing for 2 s" in told["ended_early"]) == (3, "unknown", True)
    assert "The pilot ended early" in out
    assert f"{told['left_behind']}\n" in err
    (name,) = containers(storage)
    assert name in told["left_behind"]
    assert all(text in page.read_text("utf-8") for text in ("The pilot ended early", "delete it by hand"))
    parts = {part["part"]: (sum(part["tried"].values()), part["findings"]) for part in told["parts"]}
    for part in ("storm", "idle connections", "assumptions, sdk", "model of the service"):
        assert "unknown" in {each["outcome"] for each in parts[part][1]}, part
    assert (parts["assumptions, direct"][0] > 0) == (after > 1000), "what was seen is told"
    with BlobServiceClient.from_connection_string(storage) as service:
        service.delete_container(name)


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_its_container(
    storage: str, sim: Callable[..., Sim], number: signal.Signals, code: int
) -> None:
    run = sim("pilot", "--connection", "PILOT", "--for", "5m", "--yes", PILOT=storage)
    run.wait_for(run.says("Trying what locks assume"))
    assert len(containers(storage)) == 1
    run.send(number)
    assert run.wait() == code
    assert "the container is deleted" in run.errors
    assert "Traceback" not in run.output + run.errors
    assert containers(storage) == []
    assert run.left_behind() == []


@pytest.mark.parametrize(
    ("arguments", "setting", "code", "words"),
    [
        (("--connection", "PILOT"), NOWHERE, 3, ["can't connect"]),
        (("--connection", "PILOT", "--for", "5"), NOWHERE, 2, ["--for 5", "10 seconds to 4 hours"]),
        (("--connection", "PILOT", "--for", "soon"), NOWHERE, 2, ["--for", "'soon' is no duration"]),
        (("--connection", "PILOT"), "AccountName=orders", 2, ["PILOT has no key"]),
        (("--connection", "OTHER"), NOWHERE, 2, ["no app setting", "OTHER"]),
        ((), NOWHERE, 2, ["--connection"]),
        (("--connection", "PILOT", "--json", "/nowhere/x"), NOWHERE, 2, ["--json /nowhere/x", "no folder"]),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    setting: str,
    code: int,
    words: list[str],
) -> None:
    monkeypatch.setenv("PILOT", setting)
    monkeypatch.setattr(container, "_asked", functools.partial(answered, call=1.0, answer=1.0))
    got, _, err = ended(capsys, *arguments)
    assert got == code
    assert err.count("\n") == 1
    assert all(word in err for word in words), err
    assert "c2VjcmV0" not in err


def test_nothing_is_made_without_a_yes(
    storage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOT", storage)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, err = ended(capsys, "--connection", "PILOT")
    assert (code, "add --yes" in err, "This makes the container" in out) == (2, True, True)
    assert containers(storage) == []


@pytest.mark.parametrize("words", ["n\n", "\n", ""])
def test_a_no_at_its_question_is_a_refusal(
    storage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("PILOT", storage)
    monkeypatch.setattr("sys.stdin", Terminal(words))
    code, _, err = ended(capsys, "--connection", "PILOT")
    assert (code, "nothing was made, as you did not say yes" in err, "interrupted" in err) == (4, True, False)
    assert containers(storage) == []


@pytest.mark.parametrize(("ask", "deleted"), [(True, ["left-1"]), (False, [])])
def test_what_a_killed_pilot_has_left_is_offered_and_without_a_question_it_stays(
    monkeypatch: pytest.MonkeyPatch, ask: bool, deleted: list[str]
) -> None:
    gone: list[str] = []

    async def leftovers(_: StorageAccount) -> list[str]:
        return ["left-1", "left-2"]

    async def delete(_: StorageAccount, name: str) -> None:
        gone.append(name)

    monkeypatch.setattr(pilot_cli, "leftovers", leftovers)
    monkeypatch.setattr(pilot_cli, "delete_container", delete)
    monkeypatch.setattr(pilot_cli, "answered", lambda question: "left-1" in question)
    pilot_cli.offer_leftovers(StorageAccount(NOWHERE), ask=ask)
    assert gone == deleted


def test_a_container_that_may_not_be_made_is_said_with_the_right_that_is_missing(
    storage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = urlsplit(StorageAccount(storage).endpoint).port
    assert port is not None
    with ProxyThread(port) as proxy:
        proxy.add(on("container put"), Answer(403, "AuthorizationPermissionMismatch"))
        monkeypatch.setenv("PILOT", proxy.connection_string(storage))
        code, _, err = ended(capsys, "--connection", "PILOT", "--for", "10s", "--yes")
        assert "container head" not in proxy.operations(), "nothing was made, and nothing is looked for"
    assert (code, "a permission is missing" in err) == (3, True)


def test_an_identity_that_can_not_be_used_is_a_wrong_connection(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leftovers(_: StorageAccount) -> list[str]:
        raise ConfigurationError("an identity needs the extra [identity]")

    monkeypatch.setattr(pilot_cli, "leftovers", leftovers)
    monkeypatch.setenv("PILOT__blobServiceUri", "https://orders.blob.core.windows.net")
    code, out, err = ended(capsys, "--connection", "PILOT", "--yes")
    assert (code, "[identity]" in err, "Account: https://orders.blob" in out) == (2, True, True)


def test_a_storage_that_does_not_answer_is_no_missing_right(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leftovers(_: StorageAccount) -> list[str]:
        raise StoreFailure(503, "ServerBusy")

    monkeypatch.setattr(pilot_cli, "leftovers", leftovers)
    with pytest.raises(StoreFailure):
        pilot_cli.offer_leftovers(StorageAccount(NOWHERE), ask=True)
