"""What a worker imports as it loads an app, and a process for its first lock: no more than is needed there."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeGuard

import pytest

import singleton as package
from benchmarks.bench_import import APPS
from tests.support.scripted_server import LEASED, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.process

SCRIPT = """
import sys
from singleton import LockClient, SingletonOptions
with LockClient(options=SingletonOptions(fencing_tokens=False, http=sys.argv[1])).lock("job"):
    print(*(name for name in sys.modules if name.startswith(("azure", "aiohttp"))))
"""


@pytest.fixture
def connection_string() -> Iterator[str]:
    """A storage that grants every lease, on a thread of its own."""
    loop = asyncio.new_event_loop()
    granting = Answer(201, LEASED), Answer(200, LEASED)
    server = ScriptedServer(*granting)
    loop.run_until_complete(server.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield server.connection_string
    asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


NEEDED_LATER = (
    *("aiohttp", "azure.identity", "azure.storage.blob", "azure.storage.queue", "fractions", "opentelemetry"),
    *(
        "singleton.defer.deferral",
        "singleton.defer.failure_count",
        "singleton.functions.bindings",
        "singleton.functions.guard",
        "singleton.locking",
    ),
    *("singleton.functions.message_deferral", "singleton.observing", "singleton.runtime.registry", "singleton.stores"),
)
"""By invocations, and not before: a worker answers nothing while it loads an app."""
LOAD = """
import sys
import azure.functions
before = {*sys.modules}
import function_app
for each in function_app.app.get_functions():
    each.get_user_function()
print(*{*sys.modules} - before)
"""


@pytest.mark.parametrize("app", [name for name in APPS if "@" in name])
def test_a_worker_that_loads_an_app_imports_nothing_of_invocations(app: str, tmp_path: Path) -> None:
    (tmp_path / "function_app.py").write_text(APPS[app])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-W", "ignore", "-c", LOAD]
    loaded = subprocess.check_output(command, env=env, cwd=tmp_path, text=True, timeout=60).split()
    assert "singleton.functions.arguments" in loaded
    assert [name for name in loaded if any(f"{name}.".startswith(f"{each}.") for each in NEEDED_LATER)] == []


def test_a_fork_waits_for_each_import_in_a_function() -> None:
    """But for commands and tests, which fork nothing. An import of the SDK, or of anything, would hang the child."""
    cut = []
    for file in sorted(Path(package.__path__[0]).rglob("*.py")):
        if file.name != "__main__.py" and file.parent.name not in ("cli", "testing"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            kept = {inner for node in ast.walk(tree) if is_importing(node) for inner in ast.walk(node)}
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    imports = (inner for inner in ast.walk(function) if imports_something(inner))
                    cut += [f"{file}:{each.lineno}" for each in imports if each not in kept]
    assert cut == []


def is_importing(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and ast.unparse(node.items[0]) in ("importing", "_importing")


def imports_something(node: ast.AST) -> TypeGuard[ast.expr | ast.stmt]:
    calls = isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "find_spec")
    return calls or isinstance(node, ast.Import | ast.ImportFrom)


@pytest.mark.parametrize("way", ["key", "signature"])
def test_a_first_lock_imports_neither_aiohttp_nor_the_sdk(way: str, connection_string: str, tmp_path: Path) -> None:
    assert modules("direct", way, connection_string, tmp_path) == []


def test_nor_does_one_where_the_environment_names_a_proxy(connection_string: str, tmp_path: Path) -> None:
    port = connection_string.partition("127.0.0.1:")[2].partition("/")[0]
    proxy = {"http_proxy": f"http://127.0.0.1:{port}"}
    elsewhere = connection_string.replace(f"127.0.0.1:{port}", "blob.example")
    assert modules("direct", "key", elsewhere, tmp_path, proxy) == []


def test_through_the_sdk_it_is_imported(connection_string: str, tmp_path: Path) -> None:
    """Otherwise the test above proves nothing."""
    assert "azure.storage.blob.aio" in modules("sdk", "key", connection_string, tmp_path)


def modules(
    http: str, way: str, connection_string: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    if way == "signature":
        endpoint = connection_string.partition("BlobEndpoint=")[2].rstrip(";")
        connection_string = f"BlobEndpoint={endpoint};SharedAccessSignature=sv=1&sig=x"
    inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env = {**inherited, **more, "AzureWebJobsStorage": connection_string, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, http]
    return subprocess.check_output(command, env=env, cwd=folder, text=True, timeout=60).split()
