"""From a folder to functions: what of an app is found, and what is refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from simulator.host.app.app_model import HostError
from simulator.host.startup import apply_time_zone, describe
from simulator.program import HOST
from singleton.functions.message_deferral import JITTER
from tests.support.checked import BUNDLE

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import azure.functions as func
from singleton import singleton
app = func.FunctionApp()
"""
SHIP = """
@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def ship(msg: func.QueueMessage) -> None: ...
"""
CLOUD = "DefaultEndpointsProtocol=https;AccountName=cloud;AccountKey=Y2xvdWQ="


pytestmark = pytest.mark.usefixtures("unchanged_process")


def write_app(folder: Path, code: str, head: str = HEAD) -> Path:
    (folder / "function_app.py").write_text(head + dedent(code))
    return folder


def refusal(app: Path) -> str:
    with pytest.raises(HostError) as caught:
        describe(app)
    message = str(caught.value)
    assert "\n" not in message
    return message


def described(app: Path) -> dict[str, dict[str, Any]]:
    return {function["name"]: function for function in describe(app)}


def test_functions_are_told_with_trigger_and_guard(tmp_path: Path) -> None:
    code = """
    @app.timer_trigger(arg_name="timer", schedule="%WHEN%")
    @singleton(on_contention="skip")
    def tick(timer: func.TimerRequest) -> None: ...

    @singleton(scope_id="{Region}-{Zone.Id}", level="host", timeout=5)
    @app.queue_trigger(arg_name="msg", queue_name="%QUEUE%", connection="Orders")
    async def ship(msg: func.QueueMessage) -> None: ...

    @app.queue_trigger(arg_name="msg", queue_name="plain", connection="")
    def plain(msg: str) -> None: ...

    @app.route(route="x")
    def page(req: func.HttpRequest) -> func.HttpResponse: ...
    """
    values = {"WHEN": "0 */5 * * * *", "QUEUE": "Orders-EU", "Orders": CLOUD}
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": values}))
    host_json = {"version": "2.0", **BUNDLE, "singleton": {"lockPeriod": "00:00:30"}}
    (tmp_path / "host.json").write_text(json.dumps(host_json))
    found = described(write_app(tmp_path, code))

    assert found["tick"]["trigger"] == "timer"
    assert (found["tick"]["schedule"], found["tick"]["tick"]) == ("0 */5 * * * *", 300.0)
    assert found["tick"]["guard"]["on_contention"] == "skip"
    assert found["tick"]["guard"]["lease"] == 30.0
    assert (found["ship"]["trigger"], found["ship"]["queue"], found["ship"]["connection"]) == (
        "queue",
        "orders-eu",
        "Orders",
    )
    assert found["ship"]["async"] is True
    assert found["ship"]["guard"] == {
        "scope": None,
        "scope_id": "{Region}-{Zone.Id}",
        "paths": ["Region", "Zone.Id"],
        "level": "host",
        "mode": "function",
        "listener": None,
        "on_contention": "wait",
        "timeout": 5.0,
        "lease": 30.0,
        "renewal": None,
        "failover": None,
        "cancels": True,
        "poll": 5.0,
        "window": 30.0,
        "tokens": True,
        "at_once": 1,
        "several": False,
        "at_least": 0.0,
        "max_hold": None,
        "max_waiting": None,
        "when_full": "raise",
        "merges": False,
        "decorated": False,
        "direct": True,
        "away": 10.0 * (1 + JITTER),
        "also": False,
    }
    assert found["plain"]["guard"] is None
    assert found["page"]["idle"] is None
    assert (found["page"]["source"], found["page"]["how"], found["page"]["route"]) == ("http/page", "simulated", "x")


def test_a_policy_of_the_users_own_is_told_as_one(tmp_path: Path) -> None:
    code = """
    @app.queue_trigger(arg_name="msg", queue_name="orders", connection="")
    @singleton(on_contention=lambda contention: "raise")
    def ship(msg: func.QueueMessage) -> None: ...
    """
    told = described(write_app(tmp_path, code))
    assert told["ship"]["guard"]["on_contention"] == "custom"
    json.dumps(told)


def test_what_is_never_called_has_no_queue_to_be_fed(tmp_path: Path) -> None:
    code = SHIP + SHIP.replace("ship", "off").replace('"orders"', '"other"')
    (tmp_path / "local.settings.json").write_text('{"Values": {"AzureWebJobs.off.Disabled": true}}')
    off = described(write_app(tmp_path, code))["off"]
    assert off["idle"] == "it is disabled by an app setting"
    assert "queue" not in off


def test_functions_of_a_blueprint_in_a_module_of_the_app_are_found(tmp_path: Path) -> None:
    blueprint = """
    import azure.functions as func
    blueprint = func.Blueprint()

    @blueprint.queue_trigger(arg_name="msg", queue_name="orders", connection="")
    def from_blueprint(msg: func.QueueMessage) -> None: ...
    """
    (tmp_path / "helper_of_app.py").write_text(dedent(blueprint))
    code = """
    from helper_of_app import blueprint
    app.register_functions(blueprint)
    """
    found = described(write_app(tmp_path, code))["from_blueprint"]
    assert found["place"].startswith("helper_of_app.py, line ")


def test_the_app_of_the_folder_is_meant_even_where_another_one_comes_first(tmp_path: Path) -> None:
    other, app = tmp_path / "other", tmp_path / "app"
    other.mkdir()
    app.mkdir()
    sys.path.insert(0, str(write_app(other, SHIP.replace("ship", "other"))))
    assert set(described(write_app(app, SHIP))) == {"ship"}


def test_the_folder_is_the_working_directory_while_the_app_is_imported(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("orders")
    code = 'from pathlib import Path\nname = Path("names.txt").read_text()' + SHIP.replace('"orders"', "name")
    assert described(write_app(tmp_path, code))["ship"]["queue"] == "orders"


def test_the_app_sees_the_simulators_storage_only(tmp_path: Path) -> None:
    code = """
    import os
    seen = " ".join(os.environ.values())
    assert "AccountName=cloud" not in seen, seen
    """
    os.environ["DATA_STORAGE"] = CLOUD
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": {"AzureWebJobsStorage": CLOUD}}))
    assert set(described(write_app(tmp_path, dedent(code) + SHIP))) == {"ship"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "import no_such_module_at_all",
            "function_app.py, line 5 does not import: ModuleNotFoundError: No module named",
        ),
        ("import no_such_module_at_all", "pip install -r requirements.txt"),
        (
            "from singleton.meta import Meta",
            "No module named 'singleton.meta'; singleton is the package azure-functions-singleton here, as in Azure",
        ),
        ("from singleton import Singleton", "ImportError: cannot import name 'Singleton' from 'singleton'"),
        ("from singleton import Singleton", "the package hides that module: give the module another name"),
        ("raise ValueError('first\\nsecond')", "function_app.py, line 5 does not import: ValueError: first second"),
        (
            "import os\nos.environ['ONLY_IN_AZURE']",
            "and there is no app setting ONLY_IN_AZURE here. It may be set in Azure only",
        ),
        ("{}['Key']", "line 5 does not import: KeyError: 'Key'"),
        ("def broken(:", "function_app.py, line 5 does not import: SyntaxError: "),
        ("raise SystemExit(2)", "SystemExit: 2; an app must not exit while it is imported"),
        ("class Odd(BaseException): ...\nraise Odd", "line 6 does not import: Odd"),
        ("import helper_of_broken_app", "helper_of_broken_app.py, line 2 does not import: ZeroDivisionError"),
        ("singleton(on_contention='wiat')(lambda msg: None)", "did you mean 'wait'"),
        ("", "function_app.py has no functions"),
        ("other = func.FunctionApp()" + SHIP, "2 top-level function apps (app, other)"),
        ("other = app" + SHIP, "2 top-level function apps (app, other)"),
        ("del app", "no function app at its top level"),
        (SHIP + SHIP, "can't be indexed: ValueError: Function ship does not have a unique function name"),
        (SHIP.replace("msg:", "message:"), "line 6): it declares 'message', which no decorator binds; bound are 'msg'"),
        (SHIP.replace('"orders"', '"No_Queue"'), "'no_queue' is no queue name"),
        (SHIP.replace('"orders"', '"%NO_SETTING%"'), "%NO_SETTING% does not resolve to a value"),
        (
            SHIP.replace("AzureWebJobsStorage", CLOUD),
            "has a connection string in place of the name of an app setting",
        ),
        (
            f"@singleton(connection={CLOUD!r})\ndef helper() -> None: ...\n" + SHIP,
            "@singleton on 'helper' has a connection string",
        ),
        (
            "@app.timer_trigger(arg_name='t', schedule='0 0 0 * * 7')\ndef tick(t: func.TimerRequest) -> None: ...",
            "its schedule is wrong: '0 0 0 * * 7': '7' is not valid in the day of week field",
        ),
        (
            "@app.route(route='a/{x:even}')\ndef page(req: func.HttpRequest) -> str: ...",
            "none of the app's functions can be run here (page: there is no constraint 'even'",
        ),
    ],
)
def test_an_app_that_can_not_be_run_is_refused_in_one_line(tmp_path: Path, code: str, expected: str) -> None:
    (tmp_path / "helper_of_broken_app.py").write_text("\n1 / 0\n")
    (tmp_path / "function_app.py").write_text(HEAD + code)
    assert expected in refusal(tmp_path)


def test_a_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == f"{tmp_path / 'nowhere'} is not a folder"
    assert refusal(tmp_path).startswith(f"no function_app.py in {tmp_path}")


def test_another_name_of_the_script_is_followed(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(HEAD + SHIP)
    os.environ["PYTHON_SCRIPT_FILE_NAME"] = "main.py"
    assert set(described(tmp_path)) == {"ship"}
    os.environ["PYTHON_SCRIPT_FILE_NAME"] = "../main.py"
    assert "PYTHON_SCRIPT_FILE_NAME is '../main.py'" in refusal(tmp_path)
    sys.modules.pop("main", None)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.functions", None)
    assert "pip install azure-functions" in refusal(write_app(tmp_path, SHIP))


def test_bad_singleton_options_are_told(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0", "singleton": {"lockPeriod": "00:02:00"}}')
    assert "lockPeriod" in refusal(write_app(tmp_path, SHIP))


def test_schedules_are_in_the_apps_time_zone(tmp_path: Path) -> None:
    code = """
    import time
    assert time.localtime(0).tm_hour == 16, time.tzname
    """
    (tmp_path / "local.settings.json").write_text('{"Values": {"TZ": "America/Los_Angeles"}}')
    assert set(described(write_app(tmp_path, dedent(code) + SHIP))) == {"ship"}


def test_a_time_zone_that_only_the_platform_would_apply_is_noted() -> None:
    (note,) = apply_time_zone({"WEBSITE_TIME_ZONE": "Europe/Berlin"})
    assert note.startswith("WEBSITE_TIME_ZONE is 'Europe/Berlin', which has no effect here")
    assert apply_time_zone({"WEBSITE_TIME_ZONE": "Europe/Berlin", "TZ": "Europe/Berlin"}) == []
    assert apply_time_zone({}) == []


@pytest.mark.process
def test_what_a_pipeline_installs_into_the_apps_folder_is_found(tmp_path: Path) -> None:
    app = write_app(tmp_path, "import vendored_by_a_pipeline" + SHIP)
    packages = app / ".python_packages" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "vendored_by_a_pipeline.py").touch()
    done = run_describe(app)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_modules_of_the_app_hide_none_of_the_standard_library(tmp_path: Path) -> None:
    for name in ("queue", "json", "asyncio", "selectors", "platform"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the app is in the way')")
    app = write_app(tmp_path, "import queue, json, helper_of_app" + SHIP)
    (app / "helper_of_app.py").write_text("")
    (app / "simulator").mkdir()
    (app / "simulator" / "__init__.py").touch()
    command = [*HOST, "--describe", str(app)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=app)
    assert (done.returncode, done.stderr) == (0, "")


def run_describe(app: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simulator.host", "--describe", str(app)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.process
def test_describe_prints_json_and_nothing_that_the_app_says(tmp_path: Path) -> None:
    noise = "import sys, logging\nprint('hello')\nprint('there', file=sys.stderr)\nlogging.warning('really')\n"
    done = run_describe(write_app(tmp_path, noise + SHIP))
    assert (done.returncode, done.stderr) == (0, "")
    assert [function["name"] for function in json.loads(done.stdout)] == ["ship"]


@pytest.mark.process
def test_an_app_that_closes_its_streams_is_described_like_any_other(tmp_path: Path) -> None:
    done = run_describe(write_app(tmp_path, "import sys\nsys.stdout.close()\nsys.stderr = object()\n" + SHIP))
    assert (done.returncode, done.stderr) == (0, "")
    assert [function["name"] for function in json.loads(done.stdout)] == ["ship"]


@pytest.mark.process
def test_describe_refuses_with_code_3_and_one_line(tmp_path: Path) -> None:
    done = run_describe(write_app(tmp_path, "print('hello')\n1 / 0"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "function_app.py, line 6 does not import: ZeroDivisionError: division by zero\n"


@pytest.mark.process
@pytest.mark.parametrize("arguments", [[], ["--describe"], ["--help"], ["a", "b", "c"]])
def test_other_arguments_are_a_usage_error(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "simulator.host", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
