"""What do guards cost a worker that loads an app, and a test its `memory_locks`? CPU time, in processes of their own.

A worker imports the app's script, and then indexes the functions: it reads names, signatures and types. So is it done
here, for apps that differ by their guards alone. What every worker has loaded before is imported first.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables

_IMPORT: Final = """
import sys, time
start, before = time.process_time(), len(sys.modules)
import azure.functions
print(time.process_time() - start, 0, len(sys.modules) - before)
"""
_LOAD: Final = """
import asyncio, concurrent.futures.thread, importlib, inspect, json, logging, os, pathlib, sys, time, types, typing
import azure.functions
sys.modules["azure_functions_worker"] = types.ModuleType("azure_functions_worker")
os.environ["AzureWebJobsStorage"] = "UseDevelopmentStorage=true"
logging.disable()
sys.path.insert(0, {folder!r})
start, before = time.process_time(), len(sys.modules)
app = importlib.import_module("function_app").app
loaded = time.process_time()
for each in app.get_functions():
    called = each.get_user_function()
    each.get_function_name(), each.get_trigger().get_dict_repr(), each.get_raw_bindings()
    inspect.signature(called), typing.get_type_hints(called), pathlib.Path(inspect.getfile(called)).parent
print(loaded - start, time.process_time() - loaded, len(sys.modules) - before)
"""
_TEST: Final = """
import time
from singleton import singleton
from singleton.testing import memory_locks
@singleton
def pay(): return "paid"
def test():
    with memory_locks(): pay()
test()
start = time.process_time()
for _ in range(20): test()
print((time.process_time() - start) / 20, 0, 0)
"""
_TICKS: Final = """
@app.timer_trigger(arg_name="timer", schedule="0 */5 * * * *")
{guard}
def tick{number}(timer: func.TimerRequest) -> None: ...
"""
_MESSAGES: Final = """
@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
{guard}
def ship{number}(msg: func.QueueMessage) -> None: ...
"""


def app_of(tick: str = "", ship: str = "", above: str = "", *, pairs: int = 1) -> str:
    """Return the source of an app with so many pairs of a timer and a queue function, below these decorators.

    ``above``: lines before the functions.
    """
    functions = [
        part.format(guard=guard, number=number)
        for number in range(pairs)
        for part, guard in ((_TICKS, tick), (_MESSAGES, ship))
    ]
    imports = f"from singleton import {', '.join(sorted({g[1:].partition('(')[0] for g in (tick, ship) if g}))}\n"
    return (
        "import azure.functions as func\n"
        + imports * bool(tick or ship)
        + above
        + "app = func.FunctionApp()\n"
        + "".join(functions)
    )


SKIPS: Final = "@singleton(on_contention='skip')"
DEFERS: Final = "@singleton(scope='Id', on_contention='defer')"
CLIENT: Final = "from singleton import LockClient\nlocks = LockClient()\n"
INBOX: Final = "from singleton import Inbox\ninbox = Inbox('orders')\n"
APPS: Final = {
    "an app of 2 functions, without guards": app_of(),
    "the same with `@singleton`": app_of(SKIPS, DEFERS),
    "the same with `@singleton` and `@once`": app_of(SKIPS, "@once(key='Id')"),
    "the same with `@singleton` and a `LockClient`": app_of(SKIPS, DEFERS, CLIENT),
    "the same with `@singleton` and `@ordered`": app_of(SKIPS, "@ordered(inbox)", INBOX),
    "an app of 20 functions, without guards": app_of(pairs=10),
    "the same 20 with `@singleton`": app_of(SKIPS, DEFERS, pairs=10),
}


def main(times: int = 9) -> Tables:
    """Measure, and show. The first process of each kind compiles the sources, and does not count."""
    heading("What guards cost a worker that loads an app, and a test with locks in memory")
    say(machine())
    rows: Rows = [("CPU ms", "import", "index", "both", "of these, least and most", "modules")]
    with tempfile.TemporaryDirectory() as bytecode:
        codes = {"`import azure.functions`": _IMPORT}
        for number, (name, source) in enumerate(APPS.items()):
            folder = Path(bytecode, f"app{number}")
            folder.mkdir()
            (folder / "function_app.py").write_text(source, encoding="utf-8")
            (folder / "host.json").write_text('{"version": "2.0"}', encoding="utf-8")
            codes[name] = _LOAD.format(folder=str(folder))
        codes["a test with `memory_locks`"] = _TEST
        taken = [{name: _numbers(code, bytecode) for name, code in codes.items()} for _ in range(times + 1)][1:]
    for name in codes:
        first, second, modules = zip(*(numbers[name] for numbers in taken), strict=True)
        both = [1e3 * (a + b) for a, b in zip(first, second, strict=True)]
        spread = f"{min(both):.1f} … {max(both):.1f}"
        medians = [f"{1e3 * statistics.median(each):.1f}" for each in (first, second)]
        rows.append((name, *medians, f"{statistics.median(both):.1f}", spread, f"{modules[0]:.0f}"))
    table(rows)
    return {"import": rows}


def _numbers(code: str, bytecode: str) -> list[float]:
    """Run the code in a new interpreter that keeps its bytecode in this folder, as an installed package has it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    command = [sys.executable, "-W", "ignore", "-c", code]
    root = Path(__file__).parents[1]
    return [*map(float, subprocess.check_output(command, cwd=root, env=environment, text=True).split())]


if __name__ == "__main__":
    main()
