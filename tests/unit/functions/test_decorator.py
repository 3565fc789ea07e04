"""@singleton as a declaration: its arguments and options, each checked by name and value (W-1 to W-10)."""

from __future__ import annotations

import typing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from singleton import ConfigurationError, singleton
from singleton.decorator import declared_guards, guards_of
from tests.support.lock_thread import an_app

if TYPE_CHECKING:
    from pathlib import Path

    from singleton.functions.guard import Guard


@pytest.fixture(autouse=True)
def app_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


def guard_of(function: object) -> Guard:
    (guard,) = guards_of(function)
    return guard


def some_job(msg: str) -> None: ...


def refusal(*args: Any, **arguments: Any) -> str:
    """Return the message with which ``@singleton(...)`` refuses these arguments on a plain function."""
    declare: Any = singleton
    with pytest.raises(ConfigurationError) as caught:
        declare(*args, **arguments)(some_job)
    return str(caught.value)


def test_without_arguments_it_guards_the_function_and_waits() -> None:
    @singleton
    def job(msg: str) -> None: ...

    guard = guard_of(job)
    assert (guard.function, guard.scope, guard.scope_id, guard.level) == ("job", None, "", "function")
    assert (guard.on_contention, guard.timeout, guard.wait) == ("wait", None, None)
    assert (guard.connection, guard.period) == ("AzureWebJobsStorage", 15.0)


def test_empty_parentheses_mean_the_same() -> None:
    @singleton()
    def job(msg: str) -> None: ...

    assert guard_of(job).on_contention == "wait"


def test_all_arguments_arrive_in_the_guard() -> None:
    @singleton(
        scope="Order:Id",
        scope_id="%REGION%-{Zone}",
        level="host",
        on_contention="raise",
        timeout=timedelta(seconds=2.5),
        connection="Orders",
    )
    def job(msg: str) -> None: ...

    guard = guard_of(job)
    assert (guard.scope, guard.scope_id, guard.level) == ("Order:Id", "%REGION%-{Zone}", "host")
    assert (guard.on_contention, guard.timeout, guard.connection) == ("raise", 2.5, "Orders")
    assert guard in declared_guards()


@pytest.mark.parametrize(
    ("on_contention", "timeout", "waits"),
    [
        ("wait", None, 90.0),
        ("skip", None, 0),
        ("raise", None, 0),
        ("wait", 3, 3.0),
        ("skip", 3, 3.0),
        ("raise", 0.5, 0.5),
    ],
)
def test_the_option_is_how_long_wait_waits_and_the_argument_goes_before_it(
    app_folder: Path, on_contention: typing.Literal["wait", "skip", "raise"], timeout: float | None, waits: float
) -> None:
    (app_folder / "host.json").write_text('{"singleton": {"lockAcquisitionTimeout": "00:01:30"}}')

    @singleton(on_contention=on_contention, timeout=timeout)
    def job(msg: str) -> None: ...

    assert guard_of(job).wait == waits


REFUSALS: list[tuple[dict[str, object], list[str]]] = [
    ({"scope": ""}, ["scope is blank", "'Id' or 'My:Nested:Id'"]),
    ({"scope": "  "}, ["scope is blank"]),
    ({"scope": "My::Id"}, ["'My::Id'", "empty segment"]),
    ({"scope": 5}, ["scope is 5", "property path"]),
    ({"scope": ["Id"]}, ["scope is ['Id']"]),
    ({"scope_id": None}, ["scope_id is None", "tenant:{TenantId}"]),
    ({"scope_id": 7}, ["scope_id is 7"]),
    ({"scope_id": " "}, ["scope_id is blank"]),
    ({"scope_id": "{Id"}, ["'{Id'", "character 1", "no closing bracket }"]),
    ({"scope_id": "Id}"}, ["'Id}'", "character 3", "no opening bracket {"]),
    ({"scope_id": "{}"}, ["placeholder at character 1 is empty"]),
    ({"scope_id": "100%"}, ["'100%'", "character 4", "no closing %"]),
    ({"scope_id": "{rand-guid}"}, ["exclude each other", "leave it out"]),
    ({"level": "Function"}, ["level is 'Function'", "'function', 'host'", "did you mean 'function'?"]),
    ({"level": None}, ["level is None", "'function', 'host'"]),
    ({"level": "host"}, ["level='host' needs a scope or a scope_id"]),
    ({"on_contention": "skipp"}, ["on_contention is 'skipp'", "'wait', 'skip', 'raise'", "did you mean 'skip'?"]),
    ({"on_contention": "Skip"}, ["on_contention is 'Skip'", "did you mean 'skip'?"]),
    ({"on_contention": None}, ["on_contention is None"]),
    ({"on_contention": []}, ["on_contention is []"]),
    ({"timeout": 0}, ["timeout is 0", "more than 0", "ask for the lock once"]),
    ({"timeout": -1}, ["timeout is -1", "more than 0"]),
    ({"timeout": float("nan")}, ["timeout is nan"]),
    ({"timeout": float("inf")}, ["timeout is inf"]),
    ({"timeout": timedelta(0)}, ["timeout is", "more than 0"]),
    ({"timeout": "5"}, ["timeout is '5'"]),
    ({"timeout": True}, ["timeout is True"]),
    ({"connection": ""}, ["connection is ''", "'AzureWebJobsStorage'"]),
    ({"connection": "  "}, ["connection is '  '"]),
    ({"connection": None}, ["connection is None"]),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSALS, ids=[str(arguments) for arguments, _ in REFUSALS])
def test_a_wrong_argument_is_refused_where_it_is_written(arguments: dict[str, object], said: list[str]) -> None:
    message = refusal(**arguments)
    assert [part for part in said if part not in message] == [], message


def test_a_scope_without_its_name_is_told_how_to_be_written() -> None:
    assert "@singleton(scope='Id')" in refusal("Id")


@pytest.mark.parametrize(
    ("keyword", "way_out"),
    [
        ("scopes", "no argument 'scopes'; did you mean 'scope'?"),
        ("lockPeriod", "write lock_period"),
        ("lock_at_most_for", "give max_hold"),
        ("lockAtLeastFor", "give at_least"),
        ("blocking", "give on_contention .'raise' or @singleton's 'skip' does not wait"),
        ("max_concurrent", "give limit"),
        ("sleep", "give lock_acquisition_polling_interval"),
        ("ttl", "lock_period .* or max_hold"),
        ("container", "the whole app. Set container in the singleton section of host.json, or the app setting Azure"),
        ("fencing_tokens", "AzureFunctionsJobHost__singleton__fencingTokens"),
        ("http", "AzureFunctionsJobHost__singleton__http"),
        ("qwertz", "Its arguments are scope, scope_id"),
    ],
)
def test_an_unknown_argument_is_pythons_own_error_and_names_a_way_out(keyword: str, way_out: str) -> None:
    declare: Any = singleton
    with pytest.raises(TypeError, match=way_out):
        declare(**{keyword: 1})


def test_a_wrong_host_json_is_reported_at_the_declaration(app_folder: Path) -> None:
    (app_folder / "host.json").write_text('{"singleton": {"lockPeriod": "00:00:10"}}')
    message = refusal()
    assert "host.json: singleton.lockPeriod" in message
    assert "00:00:10" in message
    assert "15" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", ["host.json", "line 1, column"]),
        ('{"singleton": {"container": "Web_Jobs"}}', ["host.json: singleton.container", "'Web_Jobs'", "lower-case"]),
        ('{"singleton": {"lockPeriot": "00:00:15"}}', ["'lockPeriot'", "did you mean 'lockPeriod'?"]),
        ('{"singleton": {"lockPeriod": 15}}', ["host.json: singleton.lockPeriod", "00:00:15"]),
    ],
)
def test_host_json_is_named_with_what_is_wrong_in_it(app_folder: Path, content: str, said: list[str]) -> None:
    (app_folder / "host.json").write_text(content)
    message = refusal()
    assert [part for part in said if part not in message] == [], message


def test_an_app_setting_goes_before_host_json(app_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (app_folder / "host.json").write_text('{"singleton": {"lockPeriod": "00:00:20"}}')
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockPeriod", "00:00:30")
    assert guard_of(singleton(some_job)).period == 30.0


def test_the_app_is_found_from_the_users_file_even_below_another_librarys_decorator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, app = tmp_path / "site-packages", tmp_path / "app"
    library.mkdir()
    app.mkdir()
    monkeypatch.delenv("AzureWebJobsScriptRoot")
    (tmp_path / "host.json").unlink()
    (app / "host.json").write_text('{"singleton": {"lockPeriod": "00:00:42"}}')
    source = (
        "import functools\ndef traced(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k)\n    return g"
    )
    space: dict[str, Any] = {}
    exec(compile(source, str(library / "traced.py"), "exec"), space)  # noqa: S102 - a library of a made-up place
    exec(compile("def job(msg): ...", str(app / "function_app.py"), "exec"), space)  # noqa: S102
    assert guard_of(singleton(space["traced"](space["job"]))).period == 42.0
