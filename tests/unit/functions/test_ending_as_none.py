"""What would end an invocation as None is refused beside a ``$return`` output that the worker can't encode None for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import azure.functions as func
import pytest

from singleton import ConfigurationError, singleton
from singleton.functions.triggers import NEVER_NONE
from tests.support.lock_thread import Context, LockThread, an_app, guard_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def refuses_none(converter: Any) -> bool:
    try:
        converter.encode(None, expected_type=None)
    except NotImplementedError:  # so the converters of azure.functions refuse a value
        return True
    return False


def test_the_types_are_those_whose_outputs_azure_functions_does_not_encode_none_for() -> None:
    functions: Any = func
    registry = functions.get_binding_registry()
    converters = {name: registry.get(name) for name in registry._bindings if isinstance(name, str)}
    outputs = {name: each for name, each in converters.items() if hasattr(each, "encode") and "Trigger" not in name}
    assert {name for name, converter in outputs.items() if refuses_none(converter)} == NEVER_NONE


def queue(app: Any) -> Any:
    return app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")


def timer(app: Any) -> Any:
    return app.timer_trigger(arg_name="timer", schedule="0 * * * * *")


def returning(app: Any, type: str = "queue") -> Any:  # noqa: A002 - the SDK's name
    return app.generic_output_binding(arg_name="$return", type=type, queueName="done", connection="C")


def message() -> func.QueueMessage:
    made: Any = func.QueueMessage(id="m-1", body=b"{}", pop_receipt="p")
    return cast("func.QueueMessage", made)


def job(msg: func.QueueMessage) -> str:
    return "done"


@pytest.mark.parametrize("type", sorted(NEVER_NONE))
@pytest.mark.parametrize("policy", ["skip", "defer"])
def test_above_the_trigger_and_its_output_it_is_refused_with_the_remedy(type: str, policy: Any) -> None:  # noqa: A002
    app = func.FunctionApp()
    singleton(on_contention=policy)(queue(app)(returning(app, type)(job)))
    with pytest.raises(ConfigurationError, match=rf"on job: on_contention='{policy}'.*its '{type}' output.*func\.Out"):
        app.get_functions()


@pytest.mark.parametrize("type", ["eventHub", "table", "signalR"])
@pytest.mark.parametrize("policy", ["skip", "defer"])
def test_outputs_that_can_be_none_are_left_alone(type: str, policy: Any) -> None:  # noqa: A002
    app = func.FunctionApp()
    singleton(on_contention=policy)(queue(app)(returning(app, type)(job)))
    assert len(app.get_functions()) == 1


def test_what_waits_or_fails_may_have_any_output_and_so_may_who_uses_a_parameter() -> None:
    for policy in ("wait", "raise"):
        singleton(on_contention=policy)(queue(app := func.FunctionApp())(returning(app)(job)))
        assert len(app.get_functions()) == 1
    app = func.FunctionApp()
    output = app.queue_output(arg_name="out", queue_name="done", connection="C")

    def through_out(msg: str, out: func.Out[str]) -> None: ...

    singleton(on_contention="skip")(queue(app)(output(through_out)))
    assert len(app.get_functions()) == 1


@pytest.mark.parametrize("arguments", [{"on_contention": "skip"}, {"on_contention": "defer"}, {"mode": "listener"}])
def test_below_the_trigger_it_is_refused_when_the_functions_are_listed(arguments: Any) -> None:
    app = func.FunctionApp()
    queue(app)(returning(app)(singleton(**arguments)(job)))
    with pytest.raises(ConfigurationError, match="'queue' output"):
        app.get_functions()


def test_an_output_that_is_added_after_the_declaration_is_seen_too() -> None:
    app = func.FunctionApp()
    returning(app)(singleton(on_contention="skip")(queue(app)(job)))
    with pytest.raises(ConfigurationError, match="'queue' output"):
        app.get_functions()


def test_in_a_module_of_its_own_the_trigger_is_found_in_the_script_that_the_worker_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = func.FunctionApp()
    monkeypatch.setitem(sys.modules, "function_app", cast("Any", SimpleNamespace(app=app)))
    guarded = singleton(on_contention="skip")(job)
    queue(app)(guarded)
    assert guard_of(guarded).trigger.settings["queueName"] == "orders"


def test_the_script_may_have_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    app = func.FunctionApp()
    monkeypatch.setenv("PYTHON_SCRIPT_FILE_NAME", "start_here.py")
    monkeypatch.setitem(sys.modules, "start_here", cast("Any", SimpleNamespace(app=app)))
    guarded = singleton(job)
    queue(app)(guarded)
    assert guard_of(guarded).trigger.parameter == "msg"


@pytest.mark.parametrize("policy", ["skip", "defer"])
def test_a_function_that_chooses_to_is_told_when_it_has_chosen(thread: LockThread, policy: Any) -> None:
    app = func.FunctionApp()
    builder: Any = singleton(on_contention=lambda _: policy)(queue(app)(returning(app)(job)))
    guarded = builder._function.get_user_function()
    assert guarded(msg=message(), context=Context()) == "done"
    thread.taken_by_another_process("locks/app/job")
    with pytest.raises(ConfigurationError, match=f"on_contention='{policy}'.*'queue' output"):
        guarded(msg=message(), context=Context())


def each(timer: func.TimerRequest) -> str:
    return "done"


@pytest.mark.parametrize("trigger", [queue, timer])
def test_a_listener_that_stands_by_is_refused_unless_it_raises(trigger: Any) -> None:
    body = job if trigger is queue else each
    singleton(mode="listener")(trigger(app := func.FunctionApp())(returning(app)(body)))
    with pytest.raises(ConfigurationError, match=r"mode='listener'.*'queue' output.*on_contention='raise'"):
        app.get_functions()
    singleton(mode="listener", on_contention="raise")(trigger(app := func.FunctionApp())(returning(app)(body)))
    assert len(app.get_functions()) == 1


def test_a_listener_on_another_trigger_raises_anyway() -> None:
    app = func.FunctionApp()
    bus = app.service_bus_queue_trigger(arg_name="msg", queue_name="q", connection="C")
    singleton(mode="listener")(bus(returning(app)(job)))
    assert len(app.get_functions()) == 1
