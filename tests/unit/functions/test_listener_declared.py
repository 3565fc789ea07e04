"""@singleton(mode="listener") as a declaration, on real threads, and on triggers of each kind."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockLost, LockNotAcquired, current_hold, singleton
from singleton.functions.triggers import QUEUE, TIMER, Trigger
from singleton.runtime.calls import Lifetime
from tests.support.deferrals import Queue
from tests.support.lock_thread import Context, LockThread, a_job, an_app, call, guard_of, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton import Hold

LOCK = "locks/app/job~listener"
NO_RECOVERY = '{"singleton": {"listenerLockRecoveryPollingInterval": "10675199.02:48:05.4775807"}}'
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def thread() -> Iterator[LockThread]:
    with LockThread() as running:
        yield running


# --- the declaration --------------------------------------------------------------------------------------------------


REFUSALS: list[tuple[dict[str, Any], list[str]]] = [
    ({"mode": "Listener"}, ["mode is 'Listener'", "'function', 'listener'", "did you mean 'listener'?"]),
    ({"mode": None}, ["mode is None"]),
    ({"scope": "Id"}, ["scope='Id'", "before there is"]),
    ({"scope_id": "eu-{Region}"}, ["{Region}", "use %SETTING%"]),
    ({"scope_id": "eu", "level": "host"}, ["level='host' is for mode='function' only"]),
    ({"level": "host"}, ["level='host' needs a scope"]),
    ({"on_contention": "skip"}, ["on_contention='skip'", "Leave it out", "Or give 'raise'"]),
    ({"on_contention": lambda _: "raise"}, ["on_contention=<function", "Leave it out"]),
    ({"timeout": 5}, ["timeout=5 has no effect", "once every 60 seconds (listenerLockRecoveryPollingInterval)"]),
    ({"layout": "dequeueable"}, ["can't be used with layout='dequeueable'"]),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSALS, ids=[", ".join(arguments) for arguments, _ in REFUSALS])
def test_what_a_listener_can_not_do_is_refused_where_it_is_written(arguments: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        a_job("sync", **{"mode": "listener", **arguments})
    assert [part for part in said if part not in str(caught.value)] == []


def test_its_lease_and_its_attempts_are_the_listeners_options() -> None:
    guard = guard_of(a_job("sync", mode="listener"))
    assert (guard.period, guard.wait, guard.poll) == (60.0, 0, 60.0)


def test_without_recovery_it_waits_as_an_invocation_does_and_the_argument_goes_first(app_folder: Path) -> None:
    (app_folder / "host.json").write_text(NO_RECOVERY)
    assert guard_of(a_job("sync", mode="listener")).wait is None
    assert guard_of(a_job("sync", mode="listener", timeout=5)).wait == 5.0


def test_on_a_developers_machine_its_lease_has_fifteen_seconds_unless_told_otherwise(
    app_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    assert guard_of(a_job("sync", mode="listener")).period == 15.0
    (app_folder / "host.json").write_text('{"singleton": {"listenerLockPeriod": "00:00:40"}}')
    assert guard_of(a_job("sync", mode="listener")).period == 40.0


@pytest.mark.parametrize(("count", "warned"), [("2", True), ("1", False), ("many", False), (None, False)])
def test_several_processes_of_a_host_are_several_candidates_and_that_is_said(
    count: str | None, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("FUNCTIONS_WORKER_PROCESS_COUNT", raising=False)
    if count is not None:
        monkeypatch.setenv("FUNCTIONS_WORKER_PROCESS_COUNT", count)
    listener, other = a_job("sync", mode="listener"), a_job("sync")
    assert caplog.records == []  # at import, the host would drop it
    with LockThread():
        for job in (listener, listener, other):
            call(job)
    said = [record.getMessage() for record in caplog.records if "FUNCTIONS_WORKER_PROCESS_COUNT" in record.getMessage()]
    assert len(said) == warned
    assert all(text.startswith("@singleton on job: it has mode='listener'") for text in said)


@pytest.mark.parametrize(
    ("trigger", "given", "said"),
    [
        (TIMER, {}, "and a timer's run that the host gives to another one is skipped"),
        (TIMER, {"on_contention": "raise"}, "and an invocation that the host gives to another one fails"),
        (QUEUE, {}, "and a message that the host gives to another one is put back"),
        ("serviceBusTrigger", {}, "and an invocation that the host gives to another one fails"),
    ],
)
def test_the_warning_says_what_becomes_of_the_invocations_of_this_trigger(
    trigger: str, given: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTIONS_WORKER_PROCESS_COUNT", "2")
    guard = guard_of(a_job("sync", mode="listener", **given))
    vars(guard)["trigger"] = Trigger(trigger, "x", {})
    (notice,) = guard._notices()
    assert said in notice


# --- the lock's name --------------------------------------------------------------------------------------------------


def test_a_setting_in_its_scope_id_names_another_lock(thread: LockThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "north")
    call(a_job("sync", mode="listener", scope_id="%REGION%"))
    assert thread.leased() == {"locks/app/job.north~listener"}


def test_a_placeholder_in_that_setting_is_refused_when_it_is_filled_in(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGION", "{Id}")
    with pytest.raises(ConfigurationError, match="filled from app settings only"):
        call(a_job("sync", mode="listener", scope_id="%REGION%"), msg='{"Id": 1}')
    assert thread.leased() == set()


def test_with_the_layout_of_webjobs_it_is_the_listeners_lock_of_a_net_host(thread: LockThread) -> None:
    tokens: list[int | None] = []
    call(a_job("sync", lambda: tokens.append(current_hold().token), mode="listener", layout="webjobs"))
    assert thread.leased() == {"locks/app/Host.Functions.job.Listener"}
    assert {place.container for place in thread.places} == {"azure-webjobs-hosts"}
    assert tokens == [None]  # that layout writes nothing on a listener's blob (W-58)


# --- on threads -------------------------------------------------------------------------------------------------------


def test_sync_bodies_of_the_leading_process_run_at_the_same_time(thread: LockThread) -> None:
    together = threading.Barrier(4, timeout=60)
    job = a_job("sync", together.wait, mode="listener")
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(call, job, owner=f"inv-{number}") for number in range(4)]
        assert sorted(run.result(60) for run in runs) == [0, 1, 2, 3]


def test_a_sync_body_is_told_of_the_loss_and_its_invocation_fails(thread: LockThread) -> None:
    def body() -> None:
        hold = current_hold()
        thread.memory.delete(LOCK)
        thread.push_clock(31)
        assert hold.lost.wait(60)
        with pytest.raises(LockLost):
            hold.raise_if_lost()

    with pytest.raises(LockLost) as caught:
        call(a_job("sync", body, mode="listener"))
    assert (caught.value.lock, caught.value.owner) == (LOCK, "inv-1")


def test_when_the_lock_thread_is_closed_a_running_body_ends_first_and_then_the_lease_goes_back() -> None:
    entered, may_end = threading.Event(), threading.Event()
    kept: list[Hold] = []

    def body() -> str:
        kept.append(current_hold())
        entered.set()
        may_end.wait(60)
        return "done"

    with LockThread() as thread, ThreadPoolExecutor(2) as pool:
        running = pool.submit(call, a_job("sync", body, mode="listener"))
        assert entered.wait(60)
        closing = pool.submit(thread.runtime.close)
        while thread.runtime.phase is Lifetime.OPEN:
            time.sleep(0.001)
        leased = thread.leased()
        may_end.set()
        assert running.result(60) == "done"
        closing.result(60)
        assert leased == {LOCK}
        assert thread.kinds()[-2:] == ["body_ended:ok", "released"]

    async def left() -> set[str]:
        return set(thread.memory.leased())

    with LockThread() as later:
        assert later.do(left) == set()


# --- triggers ---------------------------------------------------------------------------------------------------------


def on_trigger(kind: str, decorate: Callable[[func.FunctionApp], Any], parameter: str = "msg") -> Callable[..., Any]:
    """Return a listener with @singleton above its trigger, as the worker calls it."""
    names: dict[str, Any] = {}
    spelt = "async def" if kind == "async" else "def"
    exec(f"{spelt} job({parameter}): return 'done'", names)  # noqa: S102 - the parameter's name is the trigger's
    builder = decorate(func.FunctionApp())(names["job"])
    singleton(mode="listener")(builder)
    found: Callable[..., Any] = builder._function.get_user_function()
    return found


def invoke(function: Callable[..., Any], **arguments: Any) -> Any:
    return outcome(function(**arguments, context=Context()))


@both_kinds
def test_a_timer_is_skipped_whatever_its_parameter_is(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    function = on_trigger(kind, lambda app: app.timer_trigger(arg_name="timer", schedule="0 0 * * * *"), "timer")
    assert invoke(function, timer="{}") is None
    assert thread.kinds() == ["waiting", "contended:skip"]


@both_kinds
def test_a_queue_message_goes_back_unburnt_and_the_invocation_ends_as_a_success(thread: LockThread, kind: str) -> None:
    thread.taken_by_another_process(LOCK)
    queue = Queue(thread)
    function = on_trigger(
        kind, lambda app: app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    )
    message = queue.message(b'{"Key": 7}')
    assert invoke(function, msg=message) is None
    ((copy, body, dequeued),) = queue.left()
    assert (body, dequeued) == (b'{"Key": 7}', 0)
    assert thread.kinds() == ["waiting", "contended:defer", "deferred"]
    told = thread.events[-1]
    assert (told.message_id, told.copy_id, told.owner, told.mode) == (message.id, copy, "inv-1", "listener")


def test_in_the_leading_process_a_message_is_handled(thread: LockThread) -> None:
    queue = Queue(thread)
    function = on_trigger(
        "sync", lambda app: app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    )
    assert invoke(function, msg=queue.message()) == "done"
    assert queue.opened == []


def test_a_message_that_could_not_be_put_back_is_refused_by_the_leading_process_too(thread: LockThread) -> None:
    function = on_trigger(
        "sync", lambda app: app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
    )
    with pytest.raises(ConfigurationError, match=r"Annotate the parameter as func.QueueMessage"):
        invoke(function, msg="{}")
    assert thread.leased() == set()


def test_a_request_is_told_that_another_process_listens(thread: LockThread) -> None:
    thread.taken_by_another_process(LOCK)
    function = on_trigger("sync", lambda app: app.route("job"), "req")
    request = func.HttpRequest(method="POST", url="/", body=b"{}")
    with pytest.raises(LockNotAcquired, match="another process is its listener"):
        invoke(function, req=request)


def test_a_message_whose_trigger_is_not_known_comes_back_by_the_failure_of_its_invocation(thread: LockThread) -> None:
    thread.taken_by_another_process(LOCK)
    given: list[dict[str, Any]] = [{}, {"on_contention": "raise"}]
    for more in given:
        with pytest.raises(LockNotAcquired):
            call(a_job("sync", mode="listener", **more), msg="{}")
