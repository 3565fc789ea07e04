"""HTTP callers under contention: 409 of the kind that their requests ask for, and never a success without a body."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, Contention, LockNotAcquired, Policy, once, singleton
from singleton.base.events import LockEvent, subscribe
from singleton.functions.http_answers import decoded_answer, encoded_answer
from singleton.testing import always_busy, held_elsewhere, memory_locks
from tests.support.lock_thread import Context, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

both = pytest.mark.parametrize("kind", ["sync", "async"])


class Response:
    """A response as Starlette has it."""

    def __init__(self, content: Any = b"", status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        self.body = content.encode() if isinstance(content, str) else bytes(content)
        self.status_code = status_code
        self.raw_headers = [
            (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in (headers or {}).items()
        ]


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    starlette = ModuleType("starlette.responses")
    vars(starlette).update(Response=Response, PlainTextResponse=Response)
    monkeypatch.setitem(sys.modules, "starlette.responses", starlette)
    with memory_locks():
        yield


def streamed(key: str = "k") -> Any:
    return SimpleNamespace(path_params={"id": "7"}, query_params={}, headers={"Idempotency-Key": key})


def plain(key: str = "k") -> func.HttpRequest:
    return func.HttpRequest("POST", "/", route_params={"id": "7"}, headers={"Idempotency-Key": key}, body=b"{}")


REQUESTS: dict[str, Callable[[], Any]] = {"streamed": streamed, "plain": plain}
of_each_kind = pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)


def job(kind: str, guard: Callable[[Any], Any], body: Callable[[Any], Any] = lambda _: "ran") -> Any:
    def ship(req: Any) -> Any:
        return body(req)

    async def ship_async(req: Any) -> Any:
        await asyncio.sleep(0)
        return body(req)

    ship_async.__name__ = "ship"
    return guard(ship_async if kind == "async" else ship)


def call(function: Any, **arguments: Any) -> Any:
    return outcome(function(**arguments, context=Context()))


def told(answer: Any) -> tuple[int, str | None, str]:
    """Return status, Retry-After and text."""
    if isinstance(answer, Response):
        headers = {name.decode(): text.decode() for name, text in answer.raw_headers}
        return answer.status_code, headers.get("retry-after"), answer.body.decode()
    assert isinstance(answer, func.HttpResponse)
    return answer.status_code, answer.headers.get("Retry-After"), answer.get_body().decode()


def chosen(contention: Contention) -> Policy:
    return "conflict"


GUARDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "singleton": (singleton(scope_id="{id}", on_contention="conflict"), "has the lock"),
    "after a wait": (singleton(on_contention="conflict", timeout=0.05), "has the lock"),
    "nobody may wait": (singleton(on_contention="conflict", timeout=5, max_waiting=0), "has the lock"),
    "a policy of one's own": (singleton(on_contention=chosen), "has the lock"),
    "once": (once(key="{headers.Idempotency-Key}", on_contention="conflict"), "with this key is under way"),
}


@both
@of_each_kind
@pytest.mark.parametrize("guard", GUARDS)
def test_a_request_under_contention_is_answered_409_in_its_own_kind(
    kind: str, request_of: Callable[[], Any], guard: str
) -> None:
    decorate, text = GUARDS[guard]
    ship, events = job(kind, decorate), list[LockEvent]()
    unsubscribe = subscribe(events.append)
    with held_elsewhere(ship, req=request_of()):
        answer = call(ship, req=request_of())
    unsubscribe()
    assert isinstance(answer, Response) is (request_of is streamed)
    assert told(answer) == (
        409,
        "1",
        f"another request {text}: send {'it' if guard == 'once' else 'this request'} again later",
    )
    assert [event.reason for event in events if event.kind in ("contended", "failed")] == ["conflict"]
    assert call(ship, req=request_of()) == "ran"


@both
def test_another_trigger_is_refused_when_it_is_listed_or_where_the_answer_is_due(kind: str) -> None:
    guards = {
        "@singleton": singleton(on_contention="conflict"),
        "@once": once(key=lambda _: "k", on_contention="conflict"),
    }
    for name, guard in guards.items():
        app = func.FunctionApp()
        guard(job(kind, app.queue_trigger("req", "orders", "AzureWebJobsStorage")))
        with pytest.raises(
            ConfigurationError, match=rf"{name} on ship: .*'conflict'.*its trigger is a queueTrigger: use 'raise'"
        ):
            app.get_functions()
        unknown = job(kind, guard)
        with (
            always_busy(),
            pytest.raises(ConfigurationError, match=rf"{name} on ship: .*none of its arguments is a request"),
        ):
            call(unknown, req='{"Id": 1}')


def test_a_result_that_goes_elsewhere_is_no_answer() -> None:
    app = func.FunctionApp()
    builder = app.generic_output_binding(arg_name="$return", type="queue", queueName="done")(job("sync", lambda _: _))
    builder = app.generic_trigger(arg_name="req", type="httpTrigger")(builder)
    singleton(on_contention="conflict")(builder)
    with pytest.raises(ConfigurationError, match="goes to its 'queue' output"):
        app.get_functions()


@pytest.mark.parametrize("guard", ["singleton", "a policy of one's own", "once"])
@pytest.mark.parametrize("binding", [{}, {"arg_name": "res", "type": "http"}], ids=["no output", "a parameter"])
def test_a_409_that_no_output_takes_is_refused_with_what_to_declare(
    guard: str, binding: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = func.FunctionApp()
    ship = job("sync", GUARDS[guard][0])
    builder = app.generic_output_binding(**binding)(ship) if binding else ship
    app.generic_trigger(arg_name="req", type="httpTrigger")(builder)
    monkeypatch.setitem(globals(), "app", app)
    refused = r'no output takes what it returns: .*arg_name="\$return", type="http"'
    with always_busy(), pytest.raises(ConfigurationError, match=refused):
        call(ship, req=plain())


def test_an_output_that_is_declared_after_the_guard_takes_the_409() -> None:
    app = func.FunctionApp()
    builder = app.generic_trigger(arg_name="req", type="httpTrigger")(job("sync", lambda body: body))
    builder = singleton(on_contention="conflict")(builder)
    builder = app.generic_output_binding(arg_name="$return", type="http")(builder)
    with always_busy():
        assert told(call(builder._function.get_user_function(), req=plain()))[0] == 409


def test_who_is_one_too_many_fails_where_that_is_said() -> None:
    ship = job("sync", singleton(on_contention="conflict", timeout=5, max_waiting=0, when_full="raise"))
    with held_elsewhere(ship, req=plain()), pytest.raises(LockNotAcquired, match="max_waiting"):
        call(ship, req=plain())


def test_the_conflict_of_a_lock_below_is_no_result_of_the_operation_above() -> None:
    ship = job("sync", lambda body: once(key=lambda _: "k")(singleton(on_contention="conflict")(body)))
    with held_elsewhere(ship.__wrapped__, req=plain()):
        assert told(call(ship, req=plain()))[0] == 409
    assert call(ship, req=plain()) == "ran"


def test_what_the_body_was_refused_is_no_conflict_of_its_own_lock() -> None:
    def busy(_: Any) -> None:
        raise LockNotAcquired("another lock", lock="another", owner="", reason="held")

    with pytest.raises(LockNotAcquired, match="another lock"):
        call(job("sync", singleton(on_contention="conflict"), busy), req=plain())


@both
@of_each_kind
def test_skip_is_refused_to_every_kind_of_request_also_with_an_unknown_trigger(
    kind: str, request_of: Callable[[], Any]
) -> None:
    for policy in ("skip", lambda _: "skip"):
        with (
            always_busy(),
            pytest.raises(ConfigurationError, match=r"'skip' .* an HTTP trigger must answer.*'conflict'"),
        ):
            call(job(kind, singleton(on_contention=policy)), req=request_of())


@both
def test_a_streamed_answer_is_kept_and_given_again_as_it_was(kind: str) -> None:
    ran: list[Any] = []

    def answer(req: Any) -> Response:
        ran.append(req)
        made = Response(memoryview(b"\x00paid"), 201, {"Location": "/7"})
        made.raw_headers += [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=\xe9")]
        return made

    ship = job(kind, once(key="{headers.Idempotency-Key}"), answer)
    for each in (call(ship, req=streamed()) for _ in range(2)):
        assert (each.status_code, each.body) == (201, b"\x00paid")
        assert each.raw_headers == [(b"location", b"/7"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=\xe9")]
    assert len(ran) == 1


def test_an_older_version_does_not_take_a_streamed_answer_for_its_own() -> None:
    kept = encoded_answer(Response(b"paid", 201))
    assert kept is not None
    assert not {"body", "headers", "mimetype"} & kept.keys()  # which it reads, or says that it does not understand
    assert decoded_answer(kept).body == b"paid"


def test_what_is_sent_piece_by_piece_is_no_answer_to_keep() -> None:
    assert encoded_answer(SimpleNamespace(status_code=200, raw_headers=[], body_iterator=iter("ab"))) is None
