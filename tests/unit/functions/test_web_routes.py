"""Functions that no trigger's decorator knows: routes of FastAPI or Flask, which are refused, and a v1 ``main``."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import Mock

import azure.functions as func
import pytest

from singleton import AsyncLockClient, ConfigurationError, Inbox, current_hold, once, ordered, singleton
from singleton.testing import memory_locks
from tests.support import deliveries as given
from tests.support.lock_thread import Context, an_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


F = TypeVar("F", bound="Callable[..., Any]")


class Router:
    """A FastAPI or an APIRouter; with ``add_url_rule`` a Flask, a Quart or a Blueprint."""

    def __init__(self) -> None:
        self.endpoints: list[Callable[..., Any]] = []

    def add_api_route(self) -> None: ...

    def post(self, _: str, **__: object) -> Callable[[F], F]:
        def keep(function: F) -> F:
            self.endpoints.append(function)
            return function

        return keep


class Flask(Router):
    """The other kind."""

    add_api_route = property()

    def add_url_rule(self) -> None: ...

    def route(self, at: str, **more: object) -> Callable[[F], F]:
        return self.post(at, **more)


class Pages(Flask):
    """With decorators which make no route."""

    @property
    def cli(self) -> Pages:
        return self

    def command(self, name: str) -> Callable[[F], F]:
        return self.post(name)

    def on_event(self, name: str) -> Callable[[F], F]:
        return self.post(name)


api, pages = Router(), Flask()
REFUSED = r"makes it a route of a web framework.*Take the lock in the route.*AsyncLockClient.*LockClient in a def"
GUARDS = [singleton, singleton(scope="id"), singleton(mode="listener"), once(key="id")]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_below_a_route_is_refused(guard: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"@api.post {REFUSED}"):

        @api.post("/orders/{id}")
        @guard  # type: ignore[untyped-decorator]
        async def ship(id: str) -> None: ...  # noqa: A002

    with pytest.raises(ConfigurationError, match=f"@pages.route {REFUSED}"):

        @pages.route(
            "/orders/<id>",
            methods=["POST"],
        )
        @guard  # type: ignore[untyped-decorator]
        def order(id: str) -> None: ...  # noqa: A002


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_above_a_route_which_never_calls_it_is_refused(guard: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"@api.post {REFUSED}"):

        @guard  # type: ignore[untyped-decorator]
        @api.post("/orders/{id}")
        async def ship(id: str) -> None: ...  # noqa: A002


def test_so_is_an_ordered_handler() -> None:
    with pytest.raises(ConfigurationError, match=REFUSED):

        @api.post("/orders/{id}")
        @ordered(Inbox("orders"))
        async def ship(id: str) -> None: ...  # noqa: A002


def test_a_router_of_a_function_is_found_too() -> None:
    router = Router()
    with pytest.raises(ConfigurationError, match=f"@router.post {REFUSED}"):

        @router.post("/orders/{id}")
        @singleton
        async def ship(id: str) -> None: ...  # noqa: A002


def test_routes_of_the_functions_app_and_locks_in_a_route_are_allowed() -> None:
    app, locks = func.FunctionApp(), AsyncLockClient("UseDevelopmentStorage=true")

    @app.route("orders/{id}")
    @singleton(scope_id="{id}")
    async def order(req: func.HttpRequest) -> str:
        return "done"

    @api.post("/orders/{id}")
    @locks.lock("orders")
    async def ship(id: str) -> str:  # noqa: A002
        return id

    assert ship is api.endpoints[-1]


def test_commands_events_and_lazy_objects_are_no_routes() -> None:
    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"not configured: {name}")

        def get(self, function: F) -> F:
            return function

    pages, lazy = Pages(), Lazy()

    @pages.cli.command("import")
    @singleton
    def command() -> None: ...

    @pages.on_event("startup")
    @singleton
    def warm() -> None: ...

    @lazy.get
    @singleton
    def ship(msg: func.QueueMessage) -> None: ...


def test_a_main_of_the_v1_model_is_guarded_as_its_worker_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of the v1 model looks at ``main`` of the script beside a function.json, and calls it by keywords."""
    an_app(tmp_path, monkeypatch)
    holds: list[tuple[str, str]] = []

    @singleton(scope="Id")
    def main(msg: func.QueueMessage, out: func.Out[str]) -> None:
        holds.append((current_hold().lock, current_hold().owner))
        out.set("shipped")

    assert inspect.signature(main).parameters.keys() == {"msg", "out", "context"}
    assert typing.get_type_hints(main) == {"msg": func.QueueMessage, "out": func.Out[str], "return": type(None)}
    out: Any = Mock(spec=["get", "set"])
    with memory_locks():
        main(msg=given.queue_message(b'{"Id": 7}'), out=out, context=Context("inv-1", "Ship"))  # type: ignore[call-arg]
    assert holds == [("locks/app/Ship.7", "inv-1")]
    out.set.assert_called_once_with("shipped")
