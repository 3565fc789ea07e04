"""Policies of one's own: asked after the first attempt, and their answers are kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, LockNotAcquired, singleton
from singleton.functions.contention import Contention
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "locks/app/job"
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


@both_kinds
def test_a_function_decides_and_is_told_who_asks_for_what(thread: LockThread, kind: str) -> None:
    asked: list[Contention] = []

    def policy(contention: Contention) -> Any:
        asked.append(contention)
        return "skip"

    thread.taken_by_another_process(LOCK)
    assert call(a_job(kind, on_contention=policy)) is None
    assert asked == [Contention(function="job", lock=LOCK, owner="inv-1")]
    assert thread.kinds() == ["waiting", "contended:skip"]


@both_kinds
def test_it_is_not_asked_when_the_lock_is_free(kind: str) -> None:
    assert call(a_job(kind, lambda: "done", on_contention=lambda _: pytest.fail("asked"))) == "done"


@both_kinds
def test_its_raise_fails_the_invocation(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    with pytest.raises(LockNotAcquired):
        call(a_job(kind, on_contention=lambda _: "raise"))
    assert thread.kinds() == ["waiting", "contended:raise"]


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, GeneratorExit, StopIteration])
@both_kinds
def test_its_exit_fails_the_invocation_with_an_error_that_a_worker_answers(
    thread: LockThread, kind: str, error: type[BaseException]
) -> None:
    def policy(_: Contention) -> Any:
        raise error(1)

    thread.taken_by_another_process(LOCK)
    with pytest.raises(RuntimeError, match=rf"on_contention=\S+policy raised {error.__name__}: it must return") as told:
        call(a_job(kind, on_contention=policy))
    assert isinstance(told.value.__cause__, error)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@both_kinds
def test_its_error_is_the_invocations_and_an_interrupt_the_threads(
    thread: LockThread, kind: str, error: type[BaseException]
) -> None:
    def policy(_: Contention) -> Any:
        raise error

    thread.taken_by_another_process(LOCK)
    with pytest.raises(error):
        call(a_job(kind, on_contention=policy))


@both_kinds
def test_its_wait_waits_for_the_timeout(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    with pytest.raises(LockNotAcquired):
        call(a_job(kind, on_contention=lambda _: "wait", timeout=0.05))
    assert thread.kinds() == ["waiting", "contended:timeout"]


@both_kinds
def test_its_wait_gets_the_lock_when_it_is_given_back(thread: LockThread, kind: str) -> None:
    def policy(_: Contention) -> Any:
        thread.given_back_by_the_other(LOCK)
        return "wait"

    thread.taken_by_another_process(LOCK)
    assert call(a_job(kind, lambda: "done", on_contention=policy)) == "done"


@both_kinds
def test_an_answer_that_is_no_policy_fails_the_invocation(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    with pytest.raises(ConfigurationError, match=r"returned 'ignore': it must return one of 'wait', 'skip'"):
        call(a_job(kind, on_contention=lambda _: "ignore"))


async def decide_later(_: Contention) -> str:
    return "skip"


@pytest.mark.parametrize("wrong", [decide_later, Contention, 3, "wiat"])
def test_what_is_no_policy_is_refused_at_the_declaration(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_contention is"):
        singleton(on_contention=wrong)(lambda: None)


@pytest.mark.parametrize("wrong", [lambda: "skip", lambda _, __: "skip", lambda *, lock: lock])
def test_a_function_that_takes_no_contention_is_refused_at_the_declaration(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"can't be called with one argument, a Contention.*of one parameter"):
        singleton(on_contention=wrong)(lambda: None)


@pytest.mark.parametrize("policy", [lambda _, _again=1: "skip", lambda *_: "skip"])
def test_a_function_may_have_more_parameters_that_need_not_be_given(policy: Any) -> None:
    assert singleton(on_contention=policy)(lambda: None) is not None
