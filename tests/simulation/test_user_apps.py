"""The user's own app in virtual worlds: what its bodies do is told apart from what the lock does."""

from __future__ import annotations

import gc
import json
import os
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from simulator.cli import cli, main
from simulator.history.historian import read_history
from simulator.virtual.faults.host_faults import Operator
from simulator.virtual.faults.network_faults import Partition
from simulator.virtual.search import app_bodies, user_app
from simulator.virtual.search.app_bodies import remarks
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.time.machine import HOST
from simulator.virtual.worlds.outcome import told
from singleton.base.events import subscribe
from singleton.functions.guard import Guard
from tests.broken.locks import BROKEN
from tests.simulation.bugs import bug
from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.virtual.faults import WorldFault
    from simulator.virtual.worlds.outcome import Run
    from singleton.base.events import Call, LockEvent

HEAD = """
import asyncio, os, sys, time
import azure.functions as func
from singleton import singleton
app = func.FunctionApp()
"""
QUEUE = "@app.queue_trigger(arg_name='msg', queue_name='orders', connection='AzureWebJobsStorage')\n"
SHIP = HEAD + QUEUE + "@singleton(scope='Order:Id')\nasync def ship(msg: func.QueueMessage) -> None:\n"
SHIP_SYNC = HEAD + QUEUE + "@singleton(scope='Order:Id')\ndef ship(msg: func.QueueMessage) -> None:\n"
STUBBORN = """
    for _ in range(20):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
"""
STALE = """
    hold = current_hold()
    raise LockLost("the table has seen a greater token", lock=hold.lock, owner=hold.owner, reason="stolen")
"""
IGNORED = "cancellation ignored"
CUT = (Partition(at=20.0, host=0, seconds=40.0, everybody=True),)
"""No host reaches the storage for longer than a lease lasts."""


@pytest.fixture(autouse=True)
def _unchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Importing an app, and letting its ``time.sleep`` take no time, changes the process: undo that."""
    monkeypatch.setattr("singleton.decorator._declared", [])
    monkeypatch.setattr(time, "sleep", time.sleep)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    os.environ["AzureFunctionsWebHost__hostid"] = "explored"
    user_app.load.cache_clear()
    yield
    user_app.load.cache_clear()
    sys.modules.pop("function_app", None)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    app = tmp_path / "app"
    app.mkdir()
    (app / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE}))
    (app / "local.settings.json").write_text('{"Values": {"AzureWebJobsStorage": "UseDevelopmentStorage=true"}}')
    return app


def written(folder: Path, head: str, body: str = "") -> str:
    (folder / "function_app.py").write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
    return str(folder)


def live(app: str, *faults: WorldFault, hosts: int = 2, messages: user_app.Own = ()) -> Run:
    return WorldScenario(seed=7, hosts=hosts, workload="mutex", app=app, messages=messages, faults=faults).run()


def said(run: Run, *, own: bool = False) -> str:
    return "\n".join(remarks(run.accounts, own=own))


def explored(app: str, *arguments: str) -> tuple[int, str]:
    command = ["explore", "--app", app, "--jobs", "1", *arguments]
    result = CliRunner().invoke(cli, command, standalone_mode=False, env={"COLUMNS": "400"})
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


# --- what is run of an app --------------------------------------------------------------------------------------------


def test_an_app_without_settings_has_its_storage_as_on_a_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "local.settings.json").unlink()
    monkeypatch.delenv("AzureWebJobsStorage")
    run = live(written(folder, SHIP, "await asyncio.sleep(1)"))
    assert (run.violations, run.accounts["ship"].well) == ((), user_app.MESSAGES)


def test_a_function_that_is_not_run_is_told_with_the_reason(folder: Path) -> None:
    lost = SHIP.removeprefix(HEAD).replace("AzureWebJobsStorage", "Elsewhere").replace("ship", "lost")
    code, output = explored(
        written(folder, HEAD + lost + "    pass\n" + SHIP.removeprefix(HEAD), "pass"), "--scenarios", "1"
    )
    assert code == 0
    assert "About the app: function 'lost' is not run: there is no setting for its connection 'Elsewhere'" in output


def test_an_app_none_of_whose_guarded_functions_can_run_is_refused_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timer = "@app.timer_trigger(arg_name='timer', schedule='* * * * * *')\ndef tick(timer) -> None:\n    pass\n"
    app = written(folder, HEAD + timer + SHIP.removeprefix(HEAD).replace("AzureWebJobsStorage", "Elsewhere"), "pass")
    with pytest.raises(SystemExit):
        main(["explore", "--app", app])
    told = capsys.readouterr().err
    assert "no function that can be run here has @singleton; function 'ship' is not run: " in told


HELPER = HEAD + "@singleton\nasync def write_ledger(text: str) -> None:\n    await asyncio.sleep(1)\n\n" + QUEUE
HELPED = HELPER + "async def ship(msg: func.QueueMessage) -> None:\n    await write_ledger('x')\n"
QUIET = """
def quiet(function):
    def inner(msg):
        return function(msg)
    inner.__name__ = function.__name__
    return inner
"""
HIDDEN = (
    HEAD
    + QUIET
    + SHIP_SYNC.removeprefix(HEAD).replace("@singleton", "@quiet\n@singleton").replace("ship", "mail")
    + "    time.sleep(1)\n"
)
NOT_CARRIED = pytest.mark.parametrize(
    ("app", "name"),
    [
        (HELPED, "helpers-pass-by-their-guards"),
        (HIDDEN, "functions-below-a-decorator-that-hides-them-pass-by-their-guards"),
    ],
    ids=["a-helper", "below-a-decorator"],
)


@NOT_CARRIED
def test_an_app_whose_only_guards_no_function_of_the_host_carries_is_explored(
    app: str, name: str, folder: Path
) -> None:
    del name
    code, output = explored(written(folder, app), "--scenarios", "10")
    assert (code, output.rstrip().splitlines()[-1]) == (0, "No promise was broken.")


@NOT_CARRIED
def test_and_a_guard_that_lets_all_in_is_found_there(
    app: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKEN[name].breaks(monkeypatch)
    assert BROKEN[name].says in str(live(written(folder, app)).violations)


def test_an_app_whose_functions_never_call_the_guarded_one_is_told_that_nothing_was_shown(folder: Path) -> None:
    app = written(folder, HELPER + "async def ship(msg: func.QueueMessage) -> None:\n    pass\n")
    code, output = explored(app, "--scenarios", "2")
    assert code == 0
    assert "Nothing was shown of the lock, because no guarded body ran in any world." in output
    assert "No promise was broken" not in output


@pytest.mark.parametrize("name", ["names-have-no-upper-case", "scopes-are-cut"])
def test_made_up_messages_show_a_lock_that_makes_one_scope_of_two(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = written(folder, SHIP, "await asyncio.sleep(1)")
    BROKEN[name].breaks(monkeypatch)
    assert BROKEN[name].says in str(live(app).violations)


# --- bodies that refuse their messages --------------------------------------------------------------------------------


def test_bodies_that_refuse_the_made_up_messages_are_told_so_and_the_lock_is_not_blamed(folder: Path) -> None:
    code, output = explored(written(folder, SHIP, "raise ValueError('no amount in it')"), "--scenarios", "1")
    assert code == 0
    assert "starved" not in output
    words = (
        "'ship': its bodies fail on the made-up messages: ValueError: no amount in it; give messages of your own with"
    )
    assert f"About the app: {words} --messages FILE." in output
    assert output.rstrip().endswith("No promise was broken.")


def test_a_database_of_the_apps_that_has_seen_a_token_of_another_world_breaks_no_promise(folder: Path) -> None:
    run = live(written(folder, f"from singleton import LockLost, current_hold{SHIP}", STALE))
    assert not run.violations
    assert "LockLosts came from the app, or its outbox, and not from the lock: not judged" in said(run)


def test_a_message_that_is_refused_goes_to_the_poison_queue_after_five_tries_as_in_azure(folder: Path) -> None:
    run = live(written(folder, SHIP, "raise ValueError('no')"))
    assert not run.violations
    history = read_history(told(run.records))
    assert all(message.poisoned for message in history.messages.values() if message.sent is not None)
    assert {len(message.invocations) for message in history.messages.values() if message.sent is not None} == {5}


def test_a_message_of_which_only_faults_made_a_failure_is_tried_until_it_works(folder: Path) -> None:
    run = live(written(folder, SHIP, "await asyncio.sleep(14)"), *CUT)
    assert not run.violations
    assert run.reached["invocation: StorageUnavailable"] + run.reached["invocation: LockLost"] > 0
    assert run.accounts["ship"].well >= user_app.MESSAGES
    assert said(run) == ""


def test_messages_of_ones_own_are_sent_instead_each_before_any_comes_again(folder: Path, tmp_path: Path) -> None:
    app = written(folder, SHIP, "if 'Amount' not in msg.get_json()['Order']: raise ValueError('no amount')")
    (tmp_path / "mine.json").write_text(
        json.dumps({"orders": [{"Order": {"Id": number, "Amount": 1}} for number in range(3)]})
    )
    code, output = explored(app, "--scenarios", "3", "--messages", "mine.json")
    assert (code, "About the app" in output) == (0, False)
    own = user_app.own_messages(app, tmp_path / "mine.json")
    run = live(app, messages=own)
    keys = {record.get("keys")["function"] for record in run.records if record.event == "expected"}
    assert (len(own), len(keys), run.accounts["ship"].well) == (3, 3, user_app.MESSAGES)


def test_own_messages_without_a_scope_are_given_up_and_no_starvation(folder: Path) -> None:
    run = live(written(folder, SHIP, "pass"), messages=(("orders", "no json"),))
    assert not run.violations
    assert "'ship': its bodies fail on each of your messages: ScopeError: " in said(run, own=True)


def test_a_story_keeps_the_users_messages(folder: Path) -> None:
    scenario = WorldScenario(seed=7, hosts=2, workload="mutex", app=str(folder), messages=(("orders", "{}"),))
    assert WorldScenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario
    with pytest.raises(ValueError, match="messages must be a list of pairs"):
        WorldScenario.from_dict({**scenario.to_dict(), "messages": [["orders", 7]]})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--messages", "mine.json"], "--messages needs --app: the messages are for the functions of an app"),
        (["--app", "app", "--messages", "gone.json"], "gone.json: No such file"),
        (["--app", "app", "--messages", "mine.json"], "the app listens to no queue 'bills', but to 'orders'"),
    ],
)
def test_messages_that_can_not_be_used_end_with_2_and_one_line(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, SHIP, "pass")
    Path("mine.json").write_text('{"queue": "bills", "body": "x"}')
    with pytest.raises(SystemExit) as caught:
        main(["explore", *arguments])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


# --- bodies that go on after a loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*CUT, Operator(at=20.0, host=0, action="steal")], ids=["expired", "stolen"])
def test_a_body_that_swallows_its_cancellation_is_named_and_the_lock_is_not(folder: Path, fault: WorldFault) -> None:
    run = live(written(folder, SHIP, STUBBORN), fault, hosts=3)
    assert [violation.check for violation in run.violations] == [IGNORED]
    assert "the body of 'ship' on host-" in run.violations[0].text
    assert "it swallows CancelledError" in run.violations[0].text


def test_the_terminal_says_that_a_swallowed_cancellation_is_the_apps_fault(folder: Path) -> None:
    code, output = explored(written(folder, SHIP, STUBBORN), "--scenarios", "20")
    assert code == 1
    assert "shows a fault of the app, not of the lock" in output
    assert f"BROKEN ({IGNORED}): the body of 'ship'" in output


def test_a_lock_that_does_not_cancel_is_blamed_and_not_the_body(folder: Path) -> None:
    with bug("deadline ignored"):
        run = live(written(folder, SHIP, STUBBORN), *CUT)
    assert run.violations
    assert IGNORED not in {violation.check for violation in run.violations}


def test_a_body_that_cleans_up_while_its_lease_lasts_is_right(folder: Path) -> None:
    body = """
        try:
            await asyncio.sleep(20)
        finally:
            await asyncio.sleep(0.2)
    """
    run = live(written(folder, SHIP, body), *CUT)
    assert (run.violations, said(run)) == ((), "")
    assert run.reached["invocation: LockLost"] > 0


def test_a_sync_body_that_goes_on_after_a_loss_is_remarked_on(folder: Path) -> None:
    run = live(written(folder, SHIP_SYNC, "for _ in range(22): time.sleep(1)"), *CUT)
    assert not run.violations
    words = " of its bodies went on after their lock was lost and its lease had ended, for "
    assert words in said(run)
    assert "only the fencing token can refuse" in said(run)
    assert 1 < run.accounts["ship"].longest < 22


def test_an_async_body_that_the_app_wants_not_to_be_cancelled_is_remarked_on_likewise(folder: Path) -> None:
    (folder / "host.json").write_text(json.dumps({"version": "2.0", **BUNDLE, "singleton": {"cancelOnLoss": False}}))
    run = live(written(folder, SHIP, "await asyncio.sleep(22)"), *CUT)
    assert not run.violations
    assert run.accounts["ship"].went_on > 0


# --- long bodies ------------------------------------------------------------------------------------------------------


def test_long_bodies_are_work_and_no_starvation(folder: Path) -> None:
    run = live(written(folder, SHIP, "await asyncio.sleep(70)"))
    assert (run.violations, said(run)) == ((), "")
    assert run.accounts["ship"].well == user_app.MESSAGES
    assert run.seconds > 360


def test_a_body_that_never_ends_ends_its_world_without_a_judgement(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_bodies, "LONGEST", 300.0)
    run = live(written(folder, SHIP, "await asyncio.Event().wait()"))
    assert not run.violations
    assert "of its bodies still ran after 5 min of virtual time" in said(run)


# --- what is judged, and what is said before and after ----------------------------------------------------------------


def test_bodies_of_the_app_are_witnessed_and_their_keys_are_worked_out_from_declaration_and_message(
    folder: Path,
) -> None:
    run = live(written(folder, SHIP, "await asyncio.sleep(1)"))
    history = read_history(told(run.records))
    calls = [call for call in history.invocations if call.ending == "ok"]
    assert {sight.invocation for sight in history.sights} >= {call.id for call in calls}
    assert all(call.keys["function"] for call in calls)
    assert history.function("ship").guarded


def test_bodies_of_one_key_under_two_names_are_found_though_the_lock_sees_no_overlap(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = written(folder, SHIP, "await asyncio.sleep(8)")
    right = Guard.call

    def call_by_host(guard: Guard, *args: object) -> Call:
        call = right(guard, *args)  # type: ignore[arg-type]
        return replace(call, lock=f"{call.lock}-{HOST.get().name}")  # type: ignore[union-attr]

    monkeypatch.setattr(Guard, "call", call_by_host)
    texts = [violation.text for violation in live(app, hosts=3).violations if violation.check == "verdict"]
    assert any("two bodies of one lock ran at the same time" in text for text in texts)
    assert any("scopes had several locks" in text for text in texts)


def test_that_bodies_really_run_is_said_before_the_first_does(folder: Path) -> None:
    code, output = explored(written(folder, SHIP, "print('in the body')"), "--scenarios", "1")
    assert code == 0
    assert output.index("The bodies of this app's functions really run") < output.index("in the body")


@pytest.mark.parametrize(
    "guards",
    [
        "@singleton\ndef write(text):\n    time.sleep(0.1)\n{q}@singleton(scope='Id')\n",
        "{q}@once(key='Id')\n@singleton(scope_id='all')\n",
    ],
    ids=["a-helper", "once"],
)
def test_guards_inside_one_another_are_judged_apart_in_worlds_too(folder: Path, guards: str) -> None:
    head = HEAD.replace("import singleton", "import once, singleton") + guards.format(q=QUEUE)
    body = "    write('x')" if "write" in head else "    time.sleep(0.1)"
    code, output = explored(
        written(folder, head + "def ship(msg: func.QueueMessage) -> None:\n", body), "--scenarios", "40"
    )
    assert (code, output.rstrip().splitlines()[-1]) == (0, "No promise was broken.")


def test_a_broken_promise_that_does_not_come_back_says_so(folder: Path) -> None:
    once = "if done: return\n" + textwrap.dedent(STUBBORN).replace("pass", "done.append(1)")
    app = written(folder, SHIP.replace("app =", "done = []\napp ="), once)
    # In the first world the first body meets a loss.
    code, output = explored(app, "--scenarios", "20", "--seed", "2")
    heard: list[LockEvent] = []
    unsubscribe = subscribe(heard.append)
    gc.collect()
    unsubscribe()
    assert heard == [], "a body that can't be cancelled ends with its world"
    assert code == 1
    assert "It did not come back: the same world was run again, and every promise was kept." in output
    assert "The app's bodies do not do the same each time" in output
    assert not Path("singleton-story.json").exists()


@pytest.mark.parametrize("how", ["sys.stdout.close()", "sys.stdout = None"])
def test_an_app_that_closes_stdout_is_told_so(
    how: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull, "w") as stream:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as caught:
            main(["explore", "--app", written(folder, how.join(("import sys\n", "\n")) + SHIP, "pass")])
    assert caught.value.code == 2
    assert "it closes or replaces sys.stdout when it is imported" in capsys.readouterr().err
