"""What can be guarded and what can't, and what the worker sees of a guarded function (facts §6)."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockNotAcquired, singleton
from singleton.decorator import declared_guards, guards_of
from tests.support.lock_thread import Context, LockThread, an_app, guard_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


# --- what it can guard -----------------------------------------------------------------------------------------------


class CallableJob:
    def __call__(self, msg: str) -> None: ...

    def method(self, msg: str) -> None: ...


async def async_generator_job(msg: str) -> typing.AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (CallableJob(), "it is a CallableJob"),
        (CallableJob, "it is a class, and this is no pattern for classes"),
        (CallableJob().method, "it is a method"),
        (functools.partial(print), "it is a partial"),
        (functools.lru_cache(print), "_lru_cache_wrapper"),
        (print, "it is a builtin_function_or_method"),
        (async_generator_job, "it is an async generator"),
        (5, "it is a int"),
        (SimpleNamespace(_function=None), "it is a SimpleNamespace"),
    ],
)
def test_what_is_no_plain_function_is_refused_with_its_kind(target: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        singleton(target)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["DurableOrchestrationContext", "df.DurableEntityContext", "'durable.DurableOrchestrationContext'"]
)
def test_an_orchestrator_or_entity_below_its_trigger_is_known_by_its_annotation(kind: str) -> None:
    def job(context: object) -> None: ...

    job.__annotations__["context"] = kind
    with pytest.raises(ConfigurationError, match=r"runs again at each replay.*activities that it calls"):
        singleton(job)


@pytest.mark.parametrize("steps", [False, True])
def test_an_orchestrator_that_could_not_be_told_is_refused_when_it_is_called(*, steps: bool) -> None:
    class DurableOrchestrationContext: ...

    def plain(context: Any) -> None:
        pytest.fail("the body ran")

    def generator(context: Any) -> typing.Iterator[None]:
        yield

    job = singleton(generator if steps else plain)

    with pytest.raises(ConfigurationError, match="it is a Durable orchestrator"):
        job(DurableOrchestrationContext())


def test_a_second_declaration_is_refused_below() -> None:
    with pytest.raises(ConfigurationError, match=r"declared twice on .*job with mode='function': one of each mode"):

        @singleton
        @singleton(scope="Id")
        def job(msg: str) -> None: ...


def test_a_second_declaration_is_found_through_another_decorator() -> None:
    def between(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    with pytest.raises(ConfigurationError, match="declared twice"):

        @singleton
        @between
        @singleton
        def job(msg: str) -> None: ...


def test_a_declaration_that_failed_is_no_guard() -> None:
    before = len(declared_guards())
    with pytest.raises(ConfigurationError):
        singleton(timeout=0)(plain)
    assert len(declared_guards()) == before


# --- what the worker sees ------------------------------------------------------------------------------------------


def test_sync_stays_sync_and_async_stays_async() -> None:
    @singleton
    def job(msg: str) -> None: ...

    @singleton
    async def async_job(msg: str) -> None: ...

    assert inspect.isfunction(job)
    assert not inspect.iscoroutinefunction(job)
    assert inspect.iscoroutinefunction(async_job)


def test_the_name_the_docstring_the_module_and_the_original_stay() -> None:
    def job(msg: str) -> None:
        """Do it."""

    guarded = singleton(job)
    assert guarded is not job
    assert (guarded.__name__, guarded.__doc__, guarded.__module__) == ("job", "Do it.", __name__)
    assert guarded.__wrapped__ is job  # type: ignore[attr-defined]


def test_string_annotations_are_resolved_in_the_users_module() -> None:
    @singleton
    def job(msg: func.QueueMessage, out: func.Out[str]) -> None: ...

    hints = typing.get_type_hints(job)
    assert hints["msg"] is func.QueueMessage
    assert hints["out"] == func.Out[str]
    assert "context" not in hints


def plain(msg, other=None) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001


def with_context(msg: str, context: object) -> None: ...


def with_keywords(msg: str, **more: object) -> None: ...


def without_any() -> None: ...


ADDED = "context: azure.functions.mcp.MCPToolContext = None" if hasattr(func, "MCPToolContext") else "context=None"


@pytest.mark.parametrize(
    ("function", "seen"),
    [
        (plain, f"(msg, other=None, *, {ADDED}) -> 'None'"),
        (with_context, "(msg: 'str', context: 'object') -> 'None'"),
        (with_keywords, f"(msg: 'str', *, {ADDED}, **more: 'object') -> 'None'"),
        (without_any, f"(*, {ADDED}) -> 'None'"),
    ],
)
def test_a_context_is_added_to_the_signature_unless_the_user_has_one(function: Any, seen: str) -> None:
    assert str(inspect.signature(singleton(function))) == seen
    assert str(inspect.signature(function)).count("context") == (function is with_context)


# --- the trigger of a function that is guarded below it ---------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], Any]:
    """Make something a global of this module, as an app is one of its own."""

    def put(name: str, value: Any) -> Any:
        monkeypatch.setitem(globals(), name, value)
        return value

    return put


def queue_of(app: Any, name: str = "orders") -> Any:
    return app.queue_trigger(arg_name="msg", queue_name=name, connection="AzureWebJobsStorage")


def below(app: Any, **declared: Any) -> Any:
    """Return the guarded function of a queue trigger's, declared below it."""

    def job(msg: str, blob: str = "") -> None: ...

    guarded = singleton(**declared)(job)
    queue_of(app)(guarded)
    return guarded


@pytest.mark.parametrize("kind", ["FunctionApp", "Blueprint"])
def test_it_is_found_in_the_app_or_blueprint_of_the_functions_module(module: Any, kind: str) -> None:
    guarded = below(module("somewhere", getattr(func, kind)()))
    trigger = guard_of(guarded).trigger
    assert (trigger.type, trigger.parameter, trigger.settings["queueName"]) == ("queueTrigger", "msg", "orders")


def test_so_a_second_text_is_not_mistaken_for_the_payload(module: Any) -> None:
    guarded = below(module("somewhere", func.FunctionApp()), scope="Id")
    call = guard_of(guarded).call({"msg": '{"Id": 7}', "blob": '{"Id": "wrong"}'}, None)
    assert call.lock == "locks/app/job.7"


def test_it_is_found_below_other_decorators_that_wrap(module: Any) -> None:
    def job(msg: str) -> None: ...

    guarded = singleton(job)

    @functools.wraps(guarded)
    def around(*args: Any, **kwargs: Any) -> Any:
        return guarded(*args, **kwargs)

    queue_of(module("somewhere", func.FunctionApp()))(around)
    assert guard_of(guarded).trigger.parameter == "msg"


def test_it_is_found_for_both_of_two_declarations(module: Any) -> None:
    def job(msg: func.QueueMessage) -> None: ...

    both = singleton(singleton(mode="listener")(job))
    queue_of(module("somewhere", func.FunctionApp()))(both)
    triggers = [guard.trigger for guard in guards_of(both)]
    assert [trigger and trigger.parameter for trigger in triggers] == ["msg", "msg"]


def test_it_is_unknown_where_the_app_is_no_global_or_has_another_such_function(module: Any) -> None:
    assert guard_of(below(func.FunctionApp())).trigger is None
    app = module("somewhere", func.FunctionApp())
    guarded = below(app)
    queue_of(app, "others")(guarded)
    assert guard_of(guarded).trigger is None


def test_what_else_is_in_the_module_is_left_alone(module: Any) -> None:
    class Moody:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    for name, value in (("moody", Moody()), ("odd", SimpleNamespace(_function_builders=7)), ("none", None)):
        module(name, value)
    module("builders", SimpleNamespace(_function_builders=[object()]))
    guarded = below(module("somewhere", func.FunctionApp()))
    assert guard_of(guarded).trigger.parameter == "msg"


def test_above_it_is_known_also_when_its_decorator_comes_later() -> None:
    app = func.FunctionApp()

    def job(msg: str) -> None: ...

    builder: Any = singleton(app.function_name("Named")(job))
    queue_of(app)(builder)
    assert guard_of(builder._function.get_user_function()).trigger.parameter == "msg"


# --- policies that a trigger can't do ---------------------------------------------------------------------------------


def routed(app: Any) -> Any:
    return app.route(route="orders/{id}")


def test_to_skip_is_refused_above_an_http_trigger() -> None:
    def answer(req: func.HttpRequest) -> str:
        return "done"

    singleton(on_contention="skip")(routed(app := func.FunctionApp())(answer))
    with pytest.raises(ConfigurationError, match=r"on answer: on_contention='skip'.*must answer.*409"):
        app.get_functions()


def test_to_skip_is_refused_when_the_functions_are_listed_below_an_http_trigger() -> None:
    @singleton(on_contention="skip")
    def answer(req: func.HttpRequest) -> str:
        pytest.fail("the body ran")

    routed(app := func.FunctionApp())(answer)
    with pytest.raises(ConfigurationError, match="must answer"):
        app.get_functions()


def test_a_function_that_decides_to_skip_a_request_is_told_too() -> None:
    def answer(req: func.HttpRequest) -> str:
        return "done"

    with LockThread() as locks:
        guarded = singleton(on_contention=lambda _: "skip")(answer)
        locks.taken_by_another_process("locks/app/answer")
        with pytest.raises(ConfigurationError, match="must answer"):
            guarded(func.HttpRequest(method="GET", url="/", body=b""))
        with pytest.raises(LockNotAcquired):
            singleton(on_contention="raise")(answer)(func.HttpRequest(method="GET", url="/", body=b""))


# --- who asks ---------------------------------------------------------------------------------------------------------


def test_the_functions_name_is_its_hosts_where_a_binding_is_called_context(module: Any) -> None:
    def job(context: str) -> None: ...

    guarded = singleton(job)
    app = module("somewhere", func.FunctionApp())
    app.function_name("Named")(app.queue_trigger(arg_name="context", queue_name="q", connection="C")(guarded))
    assert guard_of(guarded).call({"context": "{}"}, None).lock == "locks/app/Named"


def test_the_invocations_id_is_the_workers_where_a_binding_is_called_context(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(context: str) -> None: ...

    guard = guard_of(singleton(job))
    assert guard.call({"context": "{}"}, None).owner == ""
    current: ContextVar[str | None] = ContextVar("invocation_id", default=None)
    monkeypatch.setitem(sys.modules, "azure_functions_runtime", cast("Any", SimpleNamespace(invocation_id_cv=current)))
    assert guard.call({"context": "{}"}, None).owner == ""
    token = current.set("inv-9")
    assert guard.call({"context": "{}"}, None).owner == "inv-9"
    assert guard.call({}, Context("inv-1")).owner == "inv-1"
    current.reset(token)
