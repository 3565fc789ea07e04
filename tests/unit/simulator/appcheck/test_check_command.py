"""The command around a check: colours, full disks, and imports that fail at a call of ours."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from simulator import check_cli
from simulator.appcheck.checked_app import AppSettings
from simulator.appcheck.command import app_import, child
from simulator.appcheck.command.neighbours import timers_of_each
from simulator.appcheck.engine import check
from simulator.host.app.app_model import AppError
from singleton.base.errors import ConfigurationError
from singleton.functions.misdeclaration import collecting
from singleton.testing import check_app
from tests.support.checked import SETTINGS, beside, checked, imported

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG = "@queue()\n@singleton(scope='Order.Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command on one app, without a process for its import."""
    report = checked(tmp_path / "app", WRONG).to_json()
    monkeypatch.setattr(check_cli, "report_on", lambda *_: report)
    arguments = ["--app", str(tmp_path / "app")]
    return lambda *more: CliRunner().invoke(check_cli.check, [*arguments, *more], color=True)


def test_there_are_colours_unless_no_color_is_set(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in run().output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run().output
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[" in run().output


def test_what_differs_from_another_version_counts_if_it_is_strict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = {}
    for name, pattern in (("old", "yyyyMM"), ("new", "yyyyMMdd")):
        code = f"@queue()\n@singleton(scope_id='{{When:{pattern}}}')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
        reports[name] = checked(tmp_path / name, code).to_json()
    monkeypatch.setattr(check_cli, "report_on", lambda app, *_: reports[app.name])
    arguments = ["--app", str(tmp_path / "new"), "--against", str(tmp_path / "old")]
    assert CliRunner().invoke(check_cli.check, arguments).exit_code == 0
    assert CliRunner().invoke(check_cli.check, [*arguments, "--strict"]).exit_code == 1


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_and_no_half_file_stays(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "found.sarif"
    file.write_text("{")
    monkeypatch.setattr(Path, "write_text", full)
    result = run("--sarif", str(file))
    assert (result.exit_code, file.exists()) == (3, False)
    assert "it was not written, as the disk is full" in result.output


def test_what_is_no_file_is_never_removed(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(Path, "is_file", lambda _: False)  # a device
    removed: list[Path] = []
    monkeypatch.setattr(Path, "unlink", removed.append)
    assert run("--sarif", str(tmp_path / "device")).exit_code == 3
    assert removed == []


@pytest.mark.parametrize("option", ["--json", "--verbose"])
def test_an_output_on_a_full_disk_is_said(
    run: Callable[..., Any], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.echo", full)
    result = run(option)
    assert result.exit_code == 3
    assert "the report is incomplete, as the disk of the output is full" in result.output


def test_a_result_that_can_not_be_written_is_no_mistake_of_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setattr(app_import, "checked", lambda *_: checked(tmp_path, WRONG))
    with pytest.raises(SystemExit) as ended:
        app_import.main([tmp_path / "nowhere" / "result.json", tmp_path])
    monkeypatch.setattr(child, "_run", lambda *_: ended.value.code)
    with pytest.raises(child.CheckFailed, match="the disk may be full"):
        child.report_on(tmp_path, None, 60)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("@singleton(also=OldLock(scope='x'))", "OldLock has no argument 'scope': give name"),
        ("@once(key='Id', scope='x')", "once has no argument 'scope': give key"),
        ("@singleton(scop='x')", "@singleton has no argument"),
    ],
)
def test_a_keyword_that_a_call_of_ours_lacks_is_a_finding(code: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError) as failure:
        imported(tmp_path, f"@queue()\n{code}\ndef ship(msg): ...\n")
    error = AppError("it does not import")
    error.__cause__ = failure.value
    found = app_import._refused_at_import(error, tmp_path)
    assert found is not None
    assert (found.id, said in found.message) == ("unknown-argument", True), found.message
    assert found.place is not None
    assert code in (tmp_path / "function_app.py").read_text().splitlines()[found.place.line - 1]


def test_a_keyword_that_a_library_passes_on_is_told_at_the_user_s_line(tmp_path: Path) -> None:
    lib = "from singleton import singleton\n\ndef one_at_a_time(**given):\n    return singleton(**given)\n"
    code = "import lib\n@queue()\n@lib.one_at_a_time(scop='x')\ndef ship(msg): ...\n"
    with beside(tmp_path / "site-packages", lib=lib), pytest.raises(TypeError) as failure:
        imported(tmp_path, code)
    error = AppError("it does not import")
    error.__cause__ = failure.value
    found = app_import._refused_at_import(error, tmp_path)
    assert found is not None
    assert found.place is not None
    assert found.place.file == "function_app.py"
    assert "@lib" in (tmp_path / "function_app.py").read_text().splitlines()[found.place.line - 1]


@pytest.mark.parametrize(
    "code",
    [
        "@locks.lock('a')\ndef ship(msg):\n    yield msg\n",
        "@locks.lock('a')\nasync def ship(msg): ...\n",
        "@locks.lock('')\ndef ship(msg): ...\n",
    ],
)
def test_what_a_lock_client_refuses_at_the_import_is_a_finding_at_the_user_s_line(code: str, tmp_path: Path) -> None:
    own = "from singleton import LockClient\nlocks = LockClient('AzureWebJobsStorage')\n"
    with pytest.raises(ConfigurationError) as failure:
        imported(tmp_path, f"{own}@queue()\n{code}")
    error = AppError("it does not import")
    error.__cause__ = failure.value
    found = app_import._refused_at_import(error, tmp_path)
    assert found is not None
    assert (found.id, found.severity) == ("declaration-refused", "error")
    assert found.message.startswith(str(failure.value)[:20])
    assert found.message.endswith("The app does not import, so nothing else was checked")
    assert found.place is not None
    assert "@locks" in (tmp_path / "function_app.py").read_text().splitlines()[found.place.line - 1]


def test_a_keyword_that_a_call_of_others_lacks_is_not(tmp_path: Path) -> None:
    error = AppError("it does not import")
    try:
        dict[str, str](1, 2)  # type: ignore[call-overload]
    except TypeError as cause:
        error.__cause__ = cause
    assert app_import._refused_at_import(error, tmp_path) is None


def test_an_app_whose_only_functions_nobody_registered_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    blueprint = func.Blueprint()

    @blueprint.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
    @singleton
    def nightly(clock: func.TimerRequest) -> None: ...

    @blueprint.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
    def daily(clock: func.TimerRequest) -> None: ...
    """
    module = imported(tmp_path, code)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    report = check_app(module.app, settings=SETTINGS, folder=tmp_path)
    assert [(each.id, each.function) for each in report.findings] == [
        ("no-function", name) for name in ("nightly", "daily")
    ]
    lines = (tmp_path / "function_app.py").read_text().splitlines()
    assert [lines[each.place.line - 1][4:9] for each in report.findings if each.place] == ["night", "daily"]


def test_a_function_of_a_blueprint_beside_others_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
    blueprint, lost = func.Blueprint(), func.Blueprint()

    @blueprint.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
    @singleton
    def nightly(clock: func.TimerRequest) -> None: ...

    @lost.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
    def daily(clock: func.TimerRequest) -> None: ...

    app.register_functions(blueprint)
    """
    module = imported(tmp_path, code)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    report = check(module.app, AppSettings(folder=tmp_path, values=SETTINGS, known=True), everywhere=True)
    assert [(each.id, each.function) for each in report.findings] == [("function-not-registered", "daily")]
    assert check_app(module.app, settings=SETTINGS, folder=tmp_path).findings == ()


def test_what_is_wrong_in_an_app_setting_has_the_line_of_its_file(tmp_path: Path) -> None:
    names = ("AzureFunctionsJobHost__singleton__lockTime", "AzureFunctionsJobHost__extensions__queues__batchSize")
    values = {names[0]: "00:00:30", names[1]: "64", **SETTINGS}
    file = tmp_path / "local.settings.json"
    file.write_text(json.dumps({"Values": values}, indent=1))
    app = imported(tmp_path, WRONG).app
    report = check(app, AppSettings(folder=tmp_path, values=values, known=True, file=file))
    places = {each.id: str(each.place) for each in report.errors}
    assert places == {"option-refused": "local.settings.json:3", "queue-option-refused": "local.settings.json:4"}


def test_a_class_in_place_of_a_function_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "with_a_class.py"
    file.write_text("from singleton import singleton\n\n\n@singleton\nclass Job: ...\n")
    spec = importlib.util.spec_from_file_location("with_a_class", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["with_a_class"] = module
    try:
        with collecting() as found:
            spec.loader.exec_module(module)
        app = imported(tmp_path / "app", WRONG).app
        report = check(app, AppSettings(folder=tmp_path, values=SETTINGS, known=True), misdeclared=found)
    finally:
        del sys.modules["with_a_class"]
    assert [(each.id, str(each.place)) for each in report.errors] == [("declaration-refused", "with_a_class.py:4")]


def test_a_machine_that_checks_may_be_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("Locks", "AccountName=orders;AccountKey=c2VjcmV0")
    app = imported(tmp_path, WRONG.replace("scope='Order.Id'", "connection='Locks'")).app
    assert check_app(app).errors == ()
    assert check_app(app, settings={**os.environ, **SETTINGS}).errors == ()
    pods = {**SETTINGS, "KUBERNETES_SERVICE_HOST": "10.0.0.2", "Locks": os.environ["Locks"]}
    assert [each.id for each in check_app(app, settings=pods).errors] == ["host-id-of-pod"]


def test_an_inbox_whose_app_setting_is_missing_is_told_where_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from singleton import Inbox\n\nparcels = Inbox('parcels', 'Missing')\norders = Inbox('orders')\n"
    module = imported(tmp_path, code + WRONG.replace("scope='Order.Id'", ""))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (found,) = check_app(module.app, settings=SETTINGS, folder=tmp_path).errors
    assert (found.id, found.message.partition(":")[0]) == ("connection-unset", "parcels")
    assert found.place is not None
    assert "parcels = " in (tmp_path / "function_app.py").read_text().splitlines()[found.place.line - 1]


@pytest.mark.parametrize("importer_first", [True, False])
def test_a_client_that_several_modules_import_is_told_once_where_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importer_first: bool
) -> None:
    texts = {
        "made_here": "from singleton import LockClient\n\nlocks = LockClient('A')\nothers = LockClient('B')\n",
        "used_here": "from made_here import locks as mine, locks as again\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for name in sorted(texts):
            importlib.import_module(name)
        for name in sorted(texts, reverse=importer_first):  # an importing module is listed first, or last
            sys.modules[name] = sys.modules.pop(name)
        app = imported(tmp_path, WRONG.replace("scope='Order.Id'", "")).app
        found = check_app(app, settings=SETTINGS, folder=tmp_path).errors
    finally:
        for name in texts:
            sys.modules.pop(name, None)
    assert [(each.id, str(each.place)) for each in found] == [
        ("connection-unset", "made_here.py:3"),
        ("connection-unset", "made_here.py:4"),
    ]
    assert [each.message.partition(":")[0] for each in found] == ["locks", "others"]


SETTLE = """
@timer(schedule="*/30 * * * * *")
@singleton(on_contention="skip", at_least=20)
def settle(clock: func.TimerRequest) -> None:
    print("settled")
"""


@pytest.mark.parametrize(
    ("own", "host", "other", "found"),
    [
        (SETTLE, None, SETTLE, ["timer-in-each-app"]),
        (SETTLE, None, f"\n\n{SETTLE}", ["timer-in-each-app"]),
        (SETTLE, {"singleton": {"hostId": "shop"}}, SETTLE, []),
        (SETTLE, None, SETTLE.replace("@singleton", "@functools.wraps(print) #"), []),
        (SETTLE, None, SETTLE.replace("def settle", "def pay"), []),
        (SETTLE.replace("@singleton", "@functools.wraps(print) #"), None, SETTLE, []),
        (WRONG, None, WRONG, []),
    ],
)
def test_a_timer_that_another_app_has_too_is_told_unless_a_host_id_is_set(
    own: str, host: Any, other: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(tmp_path / "south", other)
    (tmp_path / "empty").mkdir()
    report = checked(tmp_path / "north", own, host).to_json()
    assert [each["id"] for each in timers_of_each(report, tmp_path / "north", None)] == found
    assert list(timers_of_each(report, tmp_path / "north", tmp_path / "south")) == [], "another version of it"
    monkeypatch.setattr(check_cli, "report_on", lambda *_: report)
    result = CliRunner().invoke(check_cli.check, ["--app", str(tmp_path / "north")])
    assert ("timer-in-each-app" in result.output) == bool(found)
    for each in timers_of_each(report, tmp_path / "north", None):
        assert "'south', beside this app, has this timer, too" in each["message"]
        assert "@singleton" in (tmp_path / "north" / each["file"]).read_text().splitlines()[each["line"] - 1]


@pytest.mark.parametrize("folder", ["jobs", "jobs/nightly", ".venv/lib/site-packages/jobs", "site-packages"])
def test_a_timer_of_a_blueprint_in_a_folder_of_another_app_is_told_as_well(tmp_path: Path, folder: str) -> None:
    place = tmp_path / "south" / folder
    place.mkdir(parents=True)
    checked(tmp_path / "south", "")
    (place / "settle.py").write_text(SETTLE)
    report = checked(tmp_path / "north", SETTLE).to_json()
    found = [each["id"] for each in timers_of_each(report, tmp_path / "north", None)]
    assert found == ([] if "site-packages" in folder else ["timer-in-each-app"])


def test_a_timer_of_several_other_apps_is_told_once_and_another_clone_is_no_other_app(tmp_path: Path) -> None:
    for name in ("east", "south"):
        checked(tmp_path / name, SETTLE)
    report = checked(tmp_path / "north", SETTLE).to_json()
    (found,) = timers_of_each(report, tmp_path / "north", None)
    assert "'east', 'south', beside this app, have this timer, too" in found["message"]
    (tmp_path / "east" / ".git").write_text("gitdir: elsewhere")
    (found,) = timers_of_each(report, tmp_path / "north", None)
    assert "'south', beside this app" in found["message"]
    (tmp_path / "north" / ".git").mkdir()
    assert list(timers_of_each(report, tmp_path / "north", None)) == []


def test_of_a_timer_that_has_only_its_name_in_common_there_is_a_note(tmp_path: Path) -> None:
    checked(tmp_path / "south", SETTLE.replace("settled", "paid"))
    report = checked(tmp_path / "north", SETTLE).to_json()
    assert [each["severity"] for each in timers_of_each(report, tmp_path / "north", None)] == ["note"]
