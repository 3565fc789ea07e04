"""@singleton among azure.functions' own decorators: above the trigger, below it, between others, in Blueprints."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, current_hold, singleton
from singleton.decorator import guards_of
from tests.support.lock_thread import Context, LockThread, an_app, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Declare = Callable[[Callable[..., Any]], Any]
SCHEDULE = "0 */5 * * * *"


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


@pytest.fixture
def app() -> func.FunctionApp:
    return func.FunctionApp()


ran: list[tuple[str, str]] = []


def note(function: str) -> None:
    """Write down that a body runs, and under which lock: outside a guard this raises."""
    ran.append((function, current_hold().lock))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


def indexed(app: func.FunctionApp) -> dict[str, Callable[..., Any]]:
    return {each.get_function_name() or "": each.get_user_function() for each in app.get_functions()}


def invoke(function: Callable[..., Any], name: str, /, **arguments: object) -> None:
    """Call as the worker does: by keyword, with the context that the signature asks for."""
    assert outcome(function(**arguments, context=Context("inv-1", name))) is None


def queue(app: func.TriggerApi, name: str = "orders") -> Declare:
    return app.queue_trigger(arg_name="msg", queue_name=name, connection="AzureWebJobsStorage")


def timer(app: func.TriggerApi) -> Declare:
    return app.timer_trigger(arg_name="timer", schedule=SCHEDULE)


MESSAGE = func.QueueMessage(id="m-1", body=b'{"Id": 7}')


def test_below_and_above_the_trigger_guard_alike(app: func.FunctionApp) -> None:
    @queue(app)
    @singleton(scope="Id")
    def below(msg: func.QueueMessage) -> None:
        note("below")

    @singleton(scope="Id")
    @queue(app)
    def above(msg: func.QueueMessage) -> None:
        note("above")

    @queue(app)
    @singleton(scope="Id")
    async def async_below(msg: func.QueueMessage) -> None:
        note("async_below")

    @singleton(scope="Id")
    @queue(app)
    async def async_above(msg: func.QueueMessage) -> None:
        note("async_above")

    functions = indexed(app)
    assert sorted(functions) == ["above", "async_above", "async_below", "below"]
    for name, function in functions.items():
        assert inspect.iscoroutinefunction(function) == name.startswith("async")
        invoke(function, name, msg=MESSAGE)
    assert sorted(ran) == sorted((name, f"locks/app/{name}.7") for name in functions)


def test_above_the_builder_itself_is_returned_and_only_above_the_trigger_is_known(app: func.FunctionApp) -> None:
    def job(msg: str) -> None: ...

    builder = queue(app)(job)
    assert singleton(builder) is builder
    (function,) = indexed(app).values()
    trigger = guards_of(function)[0].trigger
    assert trigger is not None
    assert trigger.parameter == "msg"


def test_between_the_name_the_retry_and_the_trigger(app: func.FunctionApp) -> None:
    @app.function_name("Import")
    @singleton
    @app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
    @timer(app)
    def job(timer: func.TimerRequest) -> None:
        note("job")

    (function,) = app.get_functions()
    assert function.get_function_name() == "Import"
    assert (function.get_settings_dict("retry_policy") or {})["max_retry_count"] == "2"
    invoke(function.get_user_function(), "Import", timer=object())
    assert ran == [("job", "locks/app/Import")]


@pytest.mark.parametrize("place", ["top", "below the name", "below the output", "bottom"])
def test_among_several_bindings_at_any_place(app: func.FunctionApp, place: str) -> None:
    def at(here: str, target: Any) -> Any:
        return singleton(scope="Id")(target) if here == place else target

    def job(msg: func.QueueMessage, out: func.Out[str]) -> None:
        note("job")

    output = app.queue_output(arg_name="out", queue_name="done", connection="AzureWebJobsStorage")
    target = at("below the output", output(at("bottom", job)))
    at("top", app.function_name("Named")(at("below the name", queue(app)(target))))
    (function,) = indexed(app).values()
    assert list(inspect.signature(function).parameters) == ["msg", "out", "context"]
    invoke(function, "Named", msg=MESSAGE, out=object())
    assert ran == [("job", "locks/app/Named.7")]


def test_in_a_blueprint_registered_later(app: func.FunctionApp) -> None:
    kind: Callable[[], func.Blueprint] = func.Blueprint
    blueprint = kind()

    @queue(blueprint)
    @singleton(scope="Id")
    def below(msg: func.QueueMessage) -> None:
        note("below")

    @singleton
    @timer(blueprint)
    async def above(timer: func.TimerRequest) -> None:
        note("above")

    app.register_functions(blueprint)
    functions = indexed(app)
    invoke(functions["below"], "below", msg=MESSAGE)
    invoke(functions["above"], "above", timer=object())
    assert ran == [("below", "locks/app/below.7"), ("above", "locks/app/above")]


def test_a_generic_trigger(app: func.FunctionApp) -> None:
    @singleton(scope="Id")
    @app.generic_trigger(arg_name="msg", type="queueTrigger", queueName="orders", connection="AzureWebJobsStorage")
    def job(msg: str) -> None:
        note("job")

    (function,) = indexed(app).values()
    invoke(function, "job", msg='{"Id": 7}')
    assert ran == [("job", "locks/app/job.7")]


def test_a_second_text_is_not_mistaken_for_the_payload_above_and_below_the_trigger(app: func.FunctionApp) -> None:
    def declare(name: str) -> Declare:
        return app.generic_trigger(arg_name="msg", type="queueTrigger", queueName=name)

    blob: Declare = app.blob_input(arg_name="blob", path="c/b", connection="AzureWebJobsStorage")

    @singleton(scope="Id")
    @blob
    @declare("one")
    def above(msg: str, blob: str) -> None:
        note("above")

    @blob
    @declare("two")
    @singleton(scope="Id")
    def below(msg: str, blob: str) -> None:
        note("below")

    functions = indexed(app)
    invoke(functions["above"], "above", msg='{"Id": 7}', blob='{"Id": "wrong"}')
    assert ran == [("above", "locks/app/above.7")]
    invoke(functions["below"], "below", msg='{"Id": 7}', blob='{"Id": "wrong"}')
    assert ran[1:] == [("below", "locks/app/below.7")]


@pytest.mark.parametrize("above", [False, True], ids=["below", "above"])
@pytest.mark.parametrize(("kind", "form"), [(func.Context, "annotated"), (None, "bare")], ids=["annotated", "bare"])
def test_a_context_that_the_user_declares_is_passed_on(
    app: func.FunctionApp, *, kind: Any, form: str, above: bool
) -> None:
    def job(timer: func.TimerRequest, context: Any) -> None:
        note(context.invocation_id)

    job.__annotations__["context"] = kind
    if kind is None:
        del job.__annotations__["context"]
    singleton(timer(app)(job)) if above else timer(app)(singleton(job))
    (function,) = indexed(app).values()
    assert list(inspect.signature(function).parameters) == ["timer", "context"]
    invoke(function, "job", timer=object())
    assert ran == [("inv-1", "locks/app/job")]


def test_a_binding_may_be_called_context(app: func.FunctionApp, thread: LockThread) -> None:
    @singleton(scope="Id")
    @app.queue_trigger(arg_name="context", queue_name="orders", connection="AzureWebJobsStorage")
    def job(context: func.QueueMessage) -> None:
        note(str(context.get_body()))

    (function,) = indexed(app).values()
    assert function(context=MESSAGE) is None
    assert ran == [("b'{\"Id\": 7}'", "locks/app/job.7")]


def test_the_added_context_never_reaches_the_users_function(app: func.FunctionApp, thread: LockThread) -> None:
    @singleton(scope_id="{Id}")
    @queue(app)
    def job(msg: func.QueueMessage, *, limit: int = 3, **more: object) -> None:
        note(f"{limit} {more}")

    (function,) = indexed(app).values()
    invoke(function, "job", msg=MESSAGE)
    assert ran == [("3 {}", "locks/app/job.7")]
    assert {event.owner for event in thread.events} == {"inv-1"}


def test_a_direct_call_by_position_works_as_without_the_guard(app: func.FunctionApp) -> None:
    @singleton(scope="Id")
    def job(msg: func.QueueMessage, times: int = 1) -> int:
        note("job")
        return times

    assert job(MESSAGE) == 1
    assert job(MESSAGE, 2) == 2
    with pytest.raises(TypeError, match="missing a required argument: 'msg'"):
        job()  # type: ignore[call-arg]


# --- Durable Functions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["orchestrationTrigger", "entityTrigger"])
def test_orchestrators_and_entities_are_refused_above_their_trigger(app: func.FunctionApp, kind: str) -> None:
    def job(context: Any) -> None: ...

    singleton(app.generic_trigger(arg_name="context", type=kind)(job))
    with pytest.raises(ConfigurationError, match=r"job: it is a Durable orchestrator or entity.*activities"):
        app.get_functions()


def test_what_durable_makes_of_an_orchestrator_is_refused_before_its_trigger_is_known(app: func.FunctionApp) -> None:
    def handle(context: Any) -> None: ...

    handle.__qualname__ = "Orchestrator.create.<locals>.handle"
    handle.__name__ = "job"
    with pytest.raises(ConfigurationError, match="Durable orchestrator"):
        singleton(handle)


def test_activities_and_starters_are_guarded(app: func.FunctionApp) -> None:
    @singleton
    @app.generic_trigger(arg_name="name", type="activityTrigger")
    def activity(name: str) -> None:
        note("activity")

    functions = indexed(app)
    invoke(functions["activity"], "activity", name="x")
    assert ran == [("activity", "locks/app/activity")]


def test_two_declarations_above_and_below_are_refused(app: func.FunctionApp) -> None:
    @queue(app)
    @singleton
    def job(msg: func.QueueMessage) -> None: ...

    with pytest.raises(ConfigurationError, match=r"declared twice on .*job"):
        singleton(job)


def test_a_builder_that_is_refused_stays_what_it_was(app: func.FunctionApp) -> None:
    def job(msg: func.QueueMessage) -> None: ...

    builder = queue(app)(job)
    with pytest.raises(ConfigurationError):
        singleton(on_contention="never")(builder)  # type: ignore[call-overload]
    (function,) = indexed(app).values()
    assert function is job
