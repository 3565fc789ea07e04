"""A declaration whose lock is that of a .NET function: its name, and what its scope's values come to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, ScopeError, singleton
from tests.support.lock_thread import Context, an_app, guard_of

if TYPE_CHECKING:
    from pathlib import Path

SHIP = "Contoso.Shop.Orders.Ship"
DAY = "2026-11-22"


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def guard(**arguments: Any) -> Any:
    def ship(msg: Any) -> None: ...

    return guard_of(singleton(**arguments, layout="webjobs")(ship))


def lock(payload: object, **arguments: Any) -> str:
    found: str = guard(**arguments).call({"msg": payload}, Context()).lock
    return found.removeprefix("locks/app/")


def message(body: object, **more: Any) -> func.QueueMessage:
    text = body if isinstance(body, str) else json.dumps(body)
    found = func.QueueMessage(id="4D2C95E7-5A5A-4E2B-9DC1-6F8A0B3F1B3A", body=text.encode())
    for name, value in more.items():
        setattr(found, f"_QueueMessage__{name}", value)
    return found


def test_a_function_of_the_script_host_and_a_compiled_one() -> None:
    """Facts §10: without the full name only the former is meant."""
    assert lock("{}") == "Host.Functions.ship"
    assert lock("{}", dotnet_name=SHIP) == SHIP
    assert lock('{"Id": 42}', dotnet_name=SHIP, scope="Id") == f"{SHIP}.42"
    assert lock('{"Id": 42}', dotnet_name=SHIP, scope_id="{Id}") == f"{SHIP}.42"


def test_of_two_spellings_of_a_name_the_later_counts() -> None:
    for declared in ({"scope": "Id"}, {"scope": "id"}, {"scope_id": "{Id}"}):
        assert lock('{"Id": 1, "id": 2}', dotnet_name=SHIP, **declared) == f"{SHIP}.2"


def test_a_listener_s_lock_and_that_of_a_timer_of_the_same_app() -> None:
    """The host of this app has no lock of a C# function: such a timer is not refused as waiting for its own host."""
    app = func.FunctionApp()

    @app.timer_trigger(arg_name="timer", schedule="0 0 * * * *")
    def ship(timer: func.TimerRequest) -> None: ...

    singleton(mode="listener", layout="webjobs", dotnet_name=SHIP)(ship)
    (function,) = app.get_functions()
    guarded = guard_of(function.get_user_function())
    assert guarded.call({"timer": None}, Context()).lock == f"locks/app/{SHIP}.Listener"


@pytest.mark.parametrize("name", ["Host.Functions.ship", None])
def test_the_timer_s_lock_of_its_own_host_is_refused_by_either_name(name: str | None) -> None:
    app = func.FunctionApp()

    @app.timer_trigger(arg_name="timer", schedule="0 0 * * * *")
    @app.function_name("ship")
    def ship(timer: func.TimerRequest) -> None: ...

    singleton(mode="listener", layout="webjobs", dotnet_name=name)(ship)
    with pytest.raises(ConfigurationError, match=r"the Functions host itself holds this lock for its timer"):
        app.get_functions()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"dotnet_name": SHIP}, "is for layout='webjobs' only, and layout is 'default'"),
        ({"dotnet_name": SHIP, "layout": "dequeueable", "scope": "Id"}, "and layout is 'dequeueable'"),
        ({"dotnet_name": SHIP, "layout": "webjobs", "level": "host", "scope": "Id"}, "have no function's name"),
        ({"dotnet_name": "Ship", "layout": "webjobs"}, "dotnet_name is 'Ship': give the full name"),
        ({"dotnet_name": "", "layout": "webjobs"}, "dotnet_name is '': give the full name"),
    ],
)
def test_a_name_that_can_mean_nothing_is_refused_where_it_is_declared(arguments: Any, expected: str) -> None:
    def ship(msg: str) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        singleton(**arguments)(ship)
    assert expected in str(caught.value)


def test_a_scope_that_comes_to_nothing_is_said_once_a_declaration(caplog: pytest.LogCaptureFixture) -> None:
    one, another = guard(scope="Id"), guard(scope_id="{Flag}")
    bodies = ['{"Id": null, "Flag": []}', '{"Id": "", "Flag": {}}', '{"Id": "x", "Flag": null}']
    locks = [each.call({"msg": body}, Context()).lock for body in bodies for each in (one, another)]
    name = "locks/app/Host.Functions.ship"
    assert locks == [name, name, name, name, f"{name}.x", name]
    assert ["is empty" in text for text in caplog.messages] == [True, True]


@pytest.mark.parametrize("body", [{"Id": None}, {"Id": ""}, {"Id": " "}])
def test_our_own_layout_goes_on_to_refuse_it(body: object) -> None:
    def ship(msg: str) -> None: ...

    for arguments in ({"scope": "Id"}, {"scope_id": "{Id}"}):
        with pytest.raises(ScopeError):
            guard_of(singleton(**arguments)(ship)).call({"msg": json.dumps(body)}, Context())  # type: ignore[call-overload]


def test_a_messages_own_names_are_of_a_known_type_and_its_bodys_are_not() -> None:
    """H-47: the body's win, and then they are JSON."""
    assert lock(message("x"), scope_id="{Id}") == "Host.Functions.ship.4D2C95E7-5A5A-4E2B-9DC1-6F8A0B3F1B3A"
    assert lock(message(DAY), scope_id="{QueueTrigger}") == f"Host.Functions.ship.{DAY}"
    assert lock(DAY, scope_id="{QueueTrigger}") == f"Host.Functions.ship.{DAY}"
    with pytest.raises(ScopeError, match=r"\{Id:D\} if it is a Guid there"):
        lock(message({"id": "4D2C95E7-5A5A-4E2B-9DC1-6F8A0B3F1B3A"}), scope_id="{Id}")


def test_headers_routes_and_queries_are_text_and_the_bodys_properties_are_not() -> None:
    request = func.HttpRequest(
        method="POST",
        url="/",
        headers={"x-day": DAY},
        params={"day": DAY},
        route_params={"route": DAY},
        body=json.dumps({"posted": DAY}).encode(),
    )
    for name in ("{query.day}", "{headers.x-day}", "{route}", "{day}"):
        assert lock(request, scope_id=name) == f"Host.Functions.ship.{DAY}"
    with pytest.raises(ScopeError, match=r"\{posted:text\} if it is a string"):
        lock(request, scope_id="{posted}")


def test_an_events_data_is_json() -> None:
    event = func.EventGridEvent(
        id="1", data={"day": DAY}, topic="t", subject="s", event_type="e", event_time=None, data_version="1"
    )
    with pytest.raises(ScopeError, match=r"\{data.day:text\} if it is a string"):
        lock(event, scope_id="{data.day}")
