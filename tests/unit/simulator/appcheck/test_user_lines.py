"""Findings stand where the user wrote the function, and two functions are two, however alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from simulator.appcheck.command.sarif import sarif
from simulator.appcheck.command.text_report import lines
from singleton.testing import check_app
from tests.support.checked import SETTINGS, beside, checked, imported

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.appcheck.check_report import CheckReport

TRACED = """
def traced(function):
    def inner(req):
        return function(req)
    inner.__name__, inner.__annotations__ = function.__name__, function.__annotations__
    return inner

def told_of(error, first):
    print(error)

class reported:
    def __init__(self, on_error=told_of):
        self.on_error = on_error

    def __call__(self, function):
        on_error = self.on_error
        def anything(req):
            try:
                return function(req)
            except ValueError as error:
                on_error(error, req)
        anything.__name__, anything.__annotations__ = function.__name__, function.__annotations__
        return anything
"""
ORDER = "def order(req: func.HttpRequest) -> str: return 'ok'\n"


def lines_of(report: CheckReport, folder: Path) -> list[str]:
    """Return the lines of the findings and of the functions."""
    places = [*(each.place for each in report.errors), *(each.place for each in report.functions)]
    return [(folder / at.file).read_text().splitlines()[at.line - 1] for at in places if at is not None]


@pytest.mark.parametrize(
    "decorators", ["@deco.traced", "@deco.reported()", "@deco.traced\n@deco.reported()\n@deco.traced"]
)
@pytest.mark.parametrize("place", ["the app's folder", "site-packages", "elsewhere"])
def test_a_finding_below_a_decorator_without_a_trace_stands_at_the_user_s_own_line(
    decorators: str, place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "app"
    others = {"site-packages": folder / ".packages" / "site-packages", "elsewhere": tmp_path / "lib"}.get(place, folder)
    code = f"import deco\n@app.route(route='a')\n@singleton(on_contention='skip')\n{decorators}\n{ORDER}"
    with beside(others, deco=TRACED):
        report = checked(folder, code)
    assert lines_of(report, folder) == ["@singleton(on_contention='skip')", ORDER.strip()]
    log = sarif(report.to_json(), folder, tmp_path, "1.0")
    place_of_result = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place_of_result["artifactLocation"]["uri"] == "app/function_app.py"


def test_a_guard_below_a_decorator_without_a_trace_stands_at_its_own_line(tmp_path: Path) -> None:
    code = f"import deco\n@app.route(route='a')\n@deco.traced\n@singleton(on_contention='skip')\n{ORDER}"
    with beside(tmp_path, deco=TRACED):
        report = checked(tmp_path, code)
    assert lines_of(report, tmp_path) == ["@singleton(on_contention='skip')", ORDER.strip()]


def test_a_refused_declaration_below_a_decorator_without_a_trace_stands_at_its_line(tmp_path: Path) -> None:
    for number, decorator in enumerate(["@singleton(timeout=-1)", "@once(key=' ')"]):
        code = f"import deco\n@app.route(route='a')\n{decorator}\n@deco.traced\n{ORDER}"
        with beside(tmp_path / str(number), deco=TRACED):
            report = checked(tmp_path / str(number), code)
        assert [each.function for each in report.errors] == ["order"]
        assert lines_of(report, tmp_path / str(number)) == [decorator, ORDER.strip()]


KEEPER = """
class Kept:
    def __init__(self, function):
        self.function, self.__name__, self.__annotations__ = function, function.__name__, function.__annotations__

    def __call__(self, req):
        return self.function(req)
"""


def test_a_function_that_an_object_of_a_library_keeps_has_its_own_line(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    code = f"import deco\n@app.route(route='a')\n@singleton\n@deco.Kept\n{ORDER}"
    with beside(tmp_path / "lib", deco=KEEPER):
        report = checked(folder, code)
    assert [each.id for each in report.errors] == ["declaration-refused"]
    assert lines_of(report, folder) == ["@singleton", ORDER.strip()]


@pytest.mark.parametrize("kind", ["AsgiFunctionApp", "WsgiFunctionApp"])
def test_an_app_of_a_web_framework_stands_where_the_user_makes_it(kind: str, tmp_path: Path) -> None:
    made = f"app = func.{kind}(app=print)"
    report = checked(tmp_path, f"{made}\n")
    assert lines_of(report, tmp_path) == [made]
    (note,) = report.to_json()["findings"]
    assert (note["id"], note["file"]) == ("nothing-guarded", "function_app.py")
    shown = "\n".join(lines(report.to_json(), "app", verbose=False))
    assert f"function_app.py:{note['line']}" in shown
    assert "site-packages" not in shown


def test_functions_below_one_decorator_are_not_one_function(tmp_path: Path) -> None:
    code = f"""
import deco
@app.route(route='a')
@singleton(timeout=20)
@deco.traced
{ORDER}

@singleton
@deco.traced
def forgotten(req: func.HttpRequest) -> str: return 'ok'
"""
    with beside(tmp_path, deco=TRACED):
        report = checked(tmp_path, code)
    assert [(each.id, each.function) for each in report.warnings] == [("guard-without-function", "forgotten")]


EQUAL = """
import azure.functions as func
from singleton import singleton

blueprint = func.Blueprint()

@blueprint.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
@singleton(name=__name__)
def nightly(clock: func.TimerRequest) -> None: ...
"""


def test_equal_functions_of_two_modules_are_two_functions(tmp_path: Path) -> None:
    code = """
    import one, other

    app.register_functions(one.blueprint)
    other.blueprint._function_builders[0]._function._name = "daily"
    app.register_functions(other.blueprint)
    """
    with beside(tmp_path, one=EQUAL, other=EQUAL):
        report = checked(tmp_path, code)
    report.assert_ok(strict=True)
    assert [str(each.place) for each in report.functions] == ["one.py:9", "other.py:9"]


def test_of_equal_functions_the_one_that_nobody_registered_is_told(tmp_path: Path) -> None:
    with beside(tmp_path, one=EQUAL, other=EQUAL):
        report = checked(tmp_path, "import one, other\n\napp.register_functions(one.blueprint)\n")
        assert [(each.id, str(each.place)) for each in report.warnings] == [("guard-without-function", "other.py:8")]
    with beside(tmp_path / "bare", one=EQUAL, other=EQUAL.replace("@singleton(name=__name__)\n", "\n")):
        report = checked(tmp_path / "bare", "import one, other\n\napp.register_functions(one.blueprint)\n")
        assert [(each.id, str(each.place)) for each in report.warnings] == [("function-not-registered", "other.py:9")]


def test_functions_that_a_function_makes_are_each_refused_by_name(tmp_path: Path) -> None:
    code = """
    def job(name, timeout):
        @app.function_name(name)
        @app.timer_trigger(arg_name="clock", schedule="0 0 3 * * *")
        @singleton(timeout=timeout)
        def work(clock: func.TimerRequest) -> None: ...

    for name, timeout in (("north", -1), ("south", -2), ("west", 5)):
        job(name, timeout)
    """
    report = checked(tmp_path, code)
    assert [(each.function, each.id) for each in report.errors] == [("north", "declaration-refused")] * 1 + [
        ("south", "declaration-refused")
    ]


def test_an_app_that_a_function_makes_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
    def make():
        made = func.FunctionApp()

        @made.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
        @singleton(scope="Id")
        def ship(msg: func.QueueMessage) -> None: ...

        return made

    app = make()
    """
    module = imported(tmp_path, code)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    report = check_app(module.app, settings=SETTINGS, folder=tmp_path)
    report.assert_ok(strict=True)
    assert [each.name for each in report.functions] == ["ship"]


@pytest.mark.parametrize("traced", [False, True])
def test_ordered_is_a_guard(traced: bool, tmp_path: Path) -> None:
    code = f"""
import deco
from singleton import Inbox, InboxMessage, ordered

@queue()
{"@deco.traced" if traced else ""}
@ordered(Inbox("orders"))
def ship(req: InboxMessage) -> None: ...
"""
    with beside(tmp_path, deco=TRACED):
        report = checked(tmp_path, code.replace("@queue()", "@queue(arg_name='req')"))
    assert report.findings == ()
    (guard,) = report.functions[0].guards
    assert (guard.decorator, guard.on_contention) == ("@ordered", "order")
    assert report.lock("ship") == "webjobshost/inbox/orders/keys/{key}"
    assert (tmp_path / guard.place.file).read_text().splitlines()[guard.place.line - 1] == '@ordered(Inbox("orders"))'
    shown = "\n".join(lines(report.to_json(), "app", verbose=True))
    assert "  @ordered  handles the messages of each key in order\n" in shown


def test_what_stands_in_a_package_is_shown_where_code_scanning_looks(tmp_path: Path) -> None:
    packages = tmp_path / "lib"
    code = "import ready\n\napp.register_functions(ready.blueprint)\n"
    with beside(packages, ready=EQUAL.replace("name=__name__", "on_contention='defer'")):
        report = checked(tmp_path / "app", code)
    assert [str(each.place) for each in report.errors] == [f"{packages}/ready.py:8"]
    log = sarif(report.to_json(), tmp_path / "app", tmp_path, "1.0")
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == ("app/host.json", {"startLine": 1})
