"""What can be guarded and what can't, and what the worker sees of a guarded function (facts §6)."""

from __future__ import annotations

import functools
import inspect
import typing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, singleton
from singleton.decorator import declared_guards
from tests.support.lock_thread import an_app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


# --- what it can guard -----------------------------------------------------------------------------------------------


class CallableJob:
    def __call__(self, msg: str) -> None: ...

    def method(self, msg: str) -> None: ...


def generator_job(msg: str) -> typing.Iterator[None]:
    yield


async def async_generator_job(msg: str) -> typing.AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (CallableJob(), "it is a CallableJob"),
        (CallableJob, "it is a type"),
        (CallableJob().method, "it is a method"),
        (functools.partial(print), "it is a partial"),
        (functools.lru_cache(print), "_lru_cache_wrapper"),
        (print, "it is a builtin_function_or_method"),
        (async_generator_job, "it is an async generator"),
        (generator_job, "Durable orchestrator or entity"),
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


def test_an_orchestrator_that_could_not_be_told_is_refused_when_it_is_called() -> None:
    class DurableOrchestrationContext: ...

    @singleton
    def job(context: Any) -> None:
        pytest.fail("the body ran")

    with pytest.raises(ConfigurationError, match="job: it is a Durable orchestrator"):
        job(DurableOrchestrationContext())


def test_a_second_declaration_is_refused_below() -> None:
    with pytest.raises(ConfigurationError, match=r"declared twice on .*job: one is allowed"):

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


@pytest.mark.parametrize(
    ("function", "seen"),
    [
        (plain, "(msg, other=None, *, context=None) -> 'None'"),
        (with_context, "(msg: 'str', context: 'object') -> 'None'"),
        (with_keywords, "(msg: 'str', *, context=None, **more: 'object') -> 'None'"),
        (without_any, "(*, context=None) -> 'None'"),
    ],
)
def test_a_context_is_added_to_the_signature_unless_the_user_has_one(function: Any, seen: str) -> None:
    assert str(inspect.signature(singleton(function))) == seen
    assert str(inspect.signature(function)).count("context") == (function is with_context)
