"""A wrong declaration fails the import; in a worker with ``fail_fast`` off, the calls of its function."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
import typing
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import azure.functions as func
import pytest

from singleton import ConfigurationError, Inbox, ScopeError, once, ordered, singleton
from singleton.decorator import declared_guards
from singleton.functions import deferrable
from singleton.functions.misdeclaration import collecting
from singleton.testing import memory_locks
from tests.support.deliveries import queue_message
from tests.support.lock_thread import Context, LockThread, an_app, outcome
from tests.support.wrong_apps import APPS, HEAD, RIGHT, ROWS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Builder = Any


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(params=["azure_functions_worker", "azure_functions_runtime"])
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a process in which the worker runs: up to Python 3.12, or later."""
    monkeypatch.setitem(sys.modules, request.param, ModuleType(request.param))


@pytest.fixture
def one_by_one(worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a worker with an app in which one function's mistake concerns no other."""
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", "false")


def job(msg: func.QueueMessage, out: func.Out[str]) -> None:
    pytest.fail("the body ran")


async def async_job(msg: func.QueueMessage, out: func.Out[str]) -> None:
    pytest.fail("the body ran")


def steps(context: Any) -> None: ...


steps.__annotations__["context"] = "DurableOrchestrationContext"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"scope": ""}, "scope is blank"),
    ({"scope_id": "{"}, "no closing bracket"),
    ({"on_contention": "skipp"}, "did you mean 'skip'"),
    ({"level": "host"}, "level='host' needs a scope"),
    ({"timeout": 0}, "timeout is 0"),
    ({"mode": "listener", "scope": "Id"}, "a listener is chosen before"),
    ({"on_contention": "defer", "timeout": 999}, "at most 240"),
]


@pytest.mark.parametrize("in_worker", [True, False])
@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_it_raises_at_once_so_that_the_host_fetches_no_message(
    monkeypatch: pytest.MonkeyPatch, arguments: Any, said: str, *, in_worker: bool
) -> None:
    if in_worker:
        monkeypatch.setitem(sys.modules, "azure_functions_worker", ModuleType("azure_functions_worker"))
    with pytest.raises(ConfigurationError, match=said):
        singleton(**arguments)(job)


class Database: ...


@pytest.mark.parametrize("in_worker", [True, False])
@pytest.mark.parametrize(
    ("named", "decorator"),
    [
        ("@singleton", singleton),
        ("@singleton", singleton(scope="Id")),
        ("@once", once(key="{Id}")),
        ("@ordered", ordered(Inbox("orders"))),
    ],
)
def test_a_class_is_refused_at_once_as_this_is_no_pattern_for_classes(
    monkeypatch: pytest.MonkeyPatch, named: str, decorator: Any, in_worker: bool
) -> None:
    if in_worker:
        monkeypatch.setitem(sys.modules, "azure_functions_worker", ModuleType("azure_functions_worker"))
    with pytest.raises(ConfigurationError) as raised:
        decorator(Database)
    told = str(raised.value)
    assert told.startswith(f"{named} on Database: it is a class, and this is no pattern for classes")
    assert "Put it on a function. For one object in each process, use a global, or functools.cache" in told


@pytest.mark.parametrize("body", [job, async_job])
@pytest.mark.parametrize(("arguments", "said"), WRONG)
@pytest.mark.usefixtures("one_by_one")
def test_with_fail_fast_off_each_call_raises_it(arguments: Any, said: str, body: Any) -> None:
    before = len(declared_guards())
    failing = singleton(**arguments)(body)
    assert len(declared_guards()) == before
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=said):
            outcome(failing(msg="", out=None, context=Context()))


@pytest.mark.usefixtures("one_by_one")
def test_the_worker_sees_the_users_function() -> None:
    for body in (job, async_job):
        failing = singleton(scope="")(body)
        assert inspect.signature(failing) == inspect.signature(body)
        assert typing.get_type_hints(failing) == typing.get_type_hints(body)
        assert inspect.iscoroutinefunction(failing) == inspect.iscoroutinefunction(body)
        assert (failing.__name__, inspect.getfile(failing)) == (body.__name__, __file__)


@pytest.mark.usefixtures("one_by_one")
def test_above_the_trigger_the_builder_gets_the_failing_function() -> None:
    app = func.FunctionApp()
    builder: Builder = app.queue_trigger(arg_name="msg", queue_name="q", connection="C")(job)
    assert singleton(scope="")(builder) is builder
    with pytest.raises(ConfigurationError, match="scope is blank"):
        builder._function.get_user_function()(msg="", out=None)


@pytest.mark.usefixtures("one_by_one")
def test_of_two_declarations_the_wrong_one_fails_the_function_before_any_lock() -> None:
    with LockThread() as locks:
        for failing in (singleton(singleton(scope="")(job)), singleton(scope="")(singleton(mode="listener")(job))):
            with pytest.raises(ConfigurationError, match="scope is blank"):
                failing(msg="", out=None)  # type: ignore[arg-type]
        assert locks.kinds() == []


@pytest.mark.usefixtures("one_by_one")
def test_an_orchestrator_fails_alone() -> None:
    with pytest.raises(ConfigurationError, match="Durable orchestrator or entity"):
        singleton(steps)(None)


@pytest.mark.usefixtures("one_by_one")
def test_a_text_in_place_of_arguments_fails_alone() -> None:
    failing = cast("Any", singleton)("Id")(job)
    with pytest.raises(ConfigurationError, match="name the argument"):
        failing(msg="", out=None)


@pytest.mark.usefixtures("one_by_one")
def test_what_is_wrong_for_the_whole_app_keeps_it_from_loading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(deferrable, "find_spec", lambda _: None)
        with pytest.raises(ConfigurationError, match="needs the package azure-storage-queue"):
            singleton(on_contention="defer")(job)
    with monkeypatch.context() as patch:
        patch.setenv("AzureFunctionsJobHost__singleton__lockPeriod", "soon")
        with pytest.raises(ConfigurationError, match="lockPeriod"):
            singleton(job)
    with monkeypatch.context() as patch:
        patch.setenv("Dequeueable__Singleton__Nonsense", "1")
        with pytest.raises(ConfigurationError, match="Nonsense"):
            singleton(scope="Id", layout="dequeueable")(job)
    (folder / "host.json").write_text("{")
    for scope in ("Id", ""):
        with pytest.raises(ConfigurationError, match=r"host\.json"):
            singleton(scope=scope)(job)


def loaded(folder: Path, code: str) -> Callable[..., Any]:
    """Load an app as the worker does: import the script, and index what the app has; return the function."""
    (folder / "function_app.py").write_text(HEAD + code)
    spec = importlib.util.spec_from_file_location("function_app", folder / "function_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    *_, function = module.app.get_functions()
    inspect.signature(function.get_user_function())
    return cast("Callable[..., Any]", function.get_user_function())


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, worker: None) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("fail_fast", ["true", "false"])
@pytest.mark.parametrize(("what", "app", "off"), ROWS)
@pytest.mark.usefixtures("settings")
def test_a_worker_loads_an_app_with_a_mistake_as_the_page_says(
    what: str, app: str, off: str, fail_fast: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (codes,) = [codes for begin, codes in APPS.items() if what.startswith(begin)]
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", fail_fast)
    if what.startswith("host.json"):
        monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockPeriod", "soon")
    if what.startswith("the host id of a pod"):
        for name in ("AzureFunctionsWebHost__hostid", "CI", "CODESPACES", "REMOTE_CONTAINERS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("AzureWebJobsStorage", "AccountName=orders;AccountKey=a2V5;EndpointSuffix=core.windows.net")
    for number, code in enumerate(codes):
        (folder := tmp_path / str(number)).mkdir()
        if (app if fail_fast == "true" else off) == "loads no function":
            with pytest.raises((ConfigurationError, TypeError)):
                pytest.fail(f"{code} loads: {loaded(folder, code)}")
            continue
        function = loaded(folder, code)
        if not what.startswith(("an account", "a setting of a trigger", "what ends well")):
            in_a_body = what.startswith("what `singleton-sim check` finds in a body")  # which runs under its lock
            with memory_locks() if in_a_body else nullcontext(), pytest.raises((ConfigurationError, ScopeError)):
                outcome(function(msg='{"Id": 1}' if "msg: str" in code else queue_message()))


@pytest.mark.parametrize("code", RIGHT)
@pytest.mark.usefixtures("settings")
def test_a_worker_loads_an_app_without_a_mistake(code: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, code).__name__ == "job"


def test_after_errors_were_collected_within_one_another_declarations_raise_again() -> None:
    def declare() -> None:
        @singleton(lock_period=1)
        def wrong() -> None: ...

    with collecting() as outer:
        with collecting() as inner:
            pass
        declare()
    assert (len(outer), len(inner)) == (1, 0)
    with pytest.raises(ConfigurationError):
        declare()


# --- where a guarded function stands ----------------------------------------------------------------------------------


@singleton
def fails(msg: str) -> None:
    raise RuntimeError(msg)


@singleton
async def fails_too(msg: str) -> None:
    raise RuntimeError(msg)


@pytest.mark.parametrize("function", [fails, fails_too])
def test_a_guarded_functions_file_is_the_users_and_tracebacks_show_its_declaration(function: Any) -> None:
    assert inspect.getfile(function) == __file__
    with LockThread(), pytest.raises(RuntimeError) as caught:
        outcome(function(msg="now", context=Context()))
    shown = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.name.startswith("guarded")]
    assert [(frame.filename, frame.line) for frame in shown] == [(__file__, "@singleton")]
