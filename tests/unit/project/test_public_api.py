"""The product on one screen: what is public, what importing it costs, and that nothing it says gives a secret away."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from azure.core.exceptions import HttpResponseError

import singleton
from singleton import LockClient, SingletonError, SingletonOptions, StorageError
from singleton.base import errors
from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import resolve_blob_account
from singleton.stores.protocol import StoreFailure
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from singleton.settings.connection import StorageAccount

ROOT = Path(__file__).resolve().parents[3]
MODULES = 12
"""How many modules the decorator may load that a worker has not loaded."""


# --- names ------------------------------------------------------------------------------------------------------------


def test_all_names_what_is_there_and_nothing_else() -> None:
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(Path(singleton.__file__).with_suffix(".pyi").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("singleton")
        for alias in node.names
    }
    assert set(singleton.__all__) == imported
    assert singleton.__all__ == sorted(singleton.__all__)
    assert all(hasattr(singleton, name) for name in singleton.__all__)


@pytest.mark.process
def test_a_console_completes_every_public_name() -> None:
    listed = "import singleton; print(*dir(singleton))"
    shown = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout
    assert set(singleton.__all__) <= set(shown.split())


def test_every_error_is_public_and_of_one_root() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds <= set(singleton.__all__)
    assert all(issubclass(getattr(singleton, name), SingletonError) for name in kinds)


@pytest.mark.parametrize("name", singleton.__all__)
def test_everything_public_says_what_it_does(name: str) -> None:
    public = getattr(singleton, name)
    if not isinstance(public, type) and not inspect.isfunction(public):
        return  # a type for annotations, whose text is in the reference
    assert (inspect.getdoc(public) or "").strip()
    for attribute, member in vars(public).items() if isinstance(public, type) else ():
        if not attribute.startswith("_") and callable(member):
            assert (inspect.getdoc(member) or "").strip(), f"{name}.{attribute}"


@pytest.mark.parametrize("name", [name for name in singleton.__all__ if isinstance(getattr(singleton, name), type)])
def test_every_error_survives_pickling_with_what_it_knows(name: str) -> None:
    kind = getattr(singleton, name)
    if not issubclass(kind, SingletonError):
        return
    more = {"status": 403, "code": "X"} if issubclass(kind, StorageError) else {}
    error = kind("what happened", lock="a", owner="b", reason="c", **more)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(copy) is kind
    assert str(copy) == "what happened"
    assert vars(copy) == vars(error)


def test_the_package_is_typed() -> None:
    assert (ROOT / "singleton" / "py.typed").is_file()


# --- what importing costs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytecode")


def fresh_python(code: str, bytecode: Path) -> str:
    """Run ``code`` in a new interpreter that keeps its bytecode in this folder, as an installed package has it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.process
def test_importing_it_loads_few_modules(bytecode: Path) -> None:
    """A count, which is the same on every machine. CPU time: ``make bench ARGS=import``."""
    code = (
        "import azure.functions, concurrent.futures.thread, sys; before = {*sys.modules}\n"
        "from singleton import singleton; print(*{*sys.modules} - before)"
    )
    loaded = fresh_python(code, bytecode).split()
    assert len(loaded) <= MODULES, sorted(loaded)


@pytest.mark.process
def test_importing_it_starts_nothing_and_imports_no_sdk(bytecode: Path) -> None:
    code = "import sys, threading, singleton; print(threading.active_count(), *sys.modules)"
    threads, *modules = fresh_python(code, bytecode).split()
    assert threads == "1"
    roots = {name.split(".")[0] for name in modules}
    assert not {"azure", "aiohttp", "opentelemetry", "requests", "yarl", "multidict"} & roots
    assert not {"click", "psutil", "rich", "simulator"} & roots


@pytest.mark.process
def test_opentelemetry_is_imported_only_where_it_is_asked_for(bytecode: Path) -> None:
    use = (
        "import sys; from singleton import LockClient, observe, singleton, testing\n"
        "@singleton\ndef job(): pass\n"
        "with testing.memory_locks():\n"
        "    job()\n"
        "    with LockClient().lock('a'): pass\n"
    )
    for asked_for, code in {False: use, True: use + "observe()\n"}.items():
        shown = fresh_python(code + "print('opentelemetry' in sys.modules)", bytecode)
        assert shown.strip() == str(asked_for)


@pytest.mark.process
def test_what_is_there_for_dotnet_is_imported_only_where_a_declaration_asks_for_it(bytecode: Path) -> None:
    use = (
        "import sys; from singleton import LockClient, OldLock, singleton, testing\n"
        "@singleton(scope_id='{Id}'{more})\ndef job(Id): return Id\n"
        "with testing.memory_locks():\n"
        "    job(Id='a')\n"
        "    with LockClient().lock('a'): pass\n"
        "print(*[name for name in sys.modules if name.startswith('singleton.dotnet')])\n"
    )
    assert fresh_python(use.replace("{more}", ""), bytecode).split() == []
    asked = fresh_python(use.replace("{more}", ", layout='webjobs'"), bytecode).split()
    assert "singleton.dotnet.webjobs" in asked
    assert "singleton.dotnet.dequeueable" not in asked


# --- secrets ----------------------------------------------------------------------------------------------------------

KEY = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="
SIGNATURE = "c2lnbmF0dXJlLXRoYXQtaXMtc2VjcmV0%3D"
SIGNED = f"sv=2024-08-04&sp=rw&sig={SIGNATURE}"
NOWHERE = "http://127.0.0.1:9/orders"
CONNECTIONS = {
    "key": f"DefaultEndpointsProtocol=http;AccountName=orders;AccountKey={KEY};BlobEndpoint={NOWHERE};",
    "signature": f"BlobEndpoint={NOWHERE};SharedAccessSignature={SIGNED}",
}


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (KEY, SIGNATURE, SIGNATURE.removesuffix("%3D")) if secret in text]


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize("way_in", CONNECTIONS)
def test_no_error_and_no_log_shows_a_secret(
    way_in: str,
    http: Literal["direct", "sdk"],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureWebJobsStorage", CONNECTIONS[way_in])
    caplog.set_level(logging.DEBUG)
    account = resolve_blob_account("AzureWebJobsStorage", os.environ)
    shown = [repr(account), str(account)]
    for error in failures(account, http):
        shown += ["".join(traceback.format_exception(error)), repr(error), str(error), repr(vars(error))]
    shown += [f"{record.getMessage()} {record.args}" for record in caplog.records]
    assert [secrets_in(text) for text in shown if secrets_in(text)] == []


def failures(account: StorageAccount, http: Literal["direct", "sdk"]) -> list[BaseException]:
    """Return the errors of storage that can't be reached: the decorator's, the client's, and the SDK's own beneath."""

    async def acquire() -> None:
        store = open_container(account, "webjobshost", http)
        try:
            await store.acquire("reports", "99999999-9999-4999-8999-999999999999", 15)
        finally:
            await store.aclose()

    with pytest.raises(Exception, match=r"can't connect|ServiceRequestError") as beneath:
        asyncio.run(acquire())
    with LockThread() as thread:

        async def fail(*_: object) -> Any:
            raise beneath.value

        thread.memory.acquire = fail  # type: ignore[assignment,method-assign]
        found: list[BaseException] = [beneath.value]
        for attempt in (
            lambda: call(a_job("sync", pytest.fail, timeout=0.1)),
            lambda: call(a_job("async", pytest.fail, timeout=0.1)),
            lambda: LockClient(options=SingletonOptions()).lock("reports", timeout=0.1).__enter__(),
        ):
            with pytest.raises(singleton.StorageUnavailable) as caught:
                attempt()
            found.append(caught.value)
    return found


def test_what_the_sdk_said_is_kept_as_the_cause_without_signatures() -> None:
    async def fail() -> str:
        raise HttpResponseError(f"the SDK's: https://orders.blob.core.windows.net/locks/a?{SIGNED} of a server")

    from singleton.stores.azure_blob import judged

    with pytest.raises(StoreFailure, match="HttpResponseError") as caught:
        asyncio.run(judged(fail()))
    said = "HttpResponseError: the SDK's: https://orders.blob.core.windows.net/locks/a of a server"
    assert str(caught.value.__cause__) == said


@pytest.mark.parametrize(
    "setting",
    [
        f"AccountName=orders;AccountKey={KEY[:-2]}",
        f"AccountKey={KEY}",
        f"AccountName=orders;AccountKey={KEY};AccountName=orders",
        f"AccountName=orders;{KEY}",
        f"BlobEndpoint=nowhere?{SIGNED}",
        f"https://orders.blob.core.windows.net/?{SIGNED}",
        KEY,
    ],
)
def test_a_connection_string_that_is_wrong_is_not_repeated(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    an_app(tmp_path, monkeypatch)
    monkeypatch.setenv("AzureWebJobsStorage", setting)
    with LockThread(), pytest.raises(singleton.ConfigurationError) as caught:
        call(a_job("sync", pytest.fail, on_contention="skip"))
    text = "".join(traceback.format_exception(caught.value))
    assert "AzureWebJobsStorage" in text
    assert secrets_in(text) == []
    assert KEY[:-2] not in text
