"""What a report says: options and their sources, JSON, SARIF, lines for people, and what has another lock now."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simulator.appcheck.command.comparison import renamed
from simulator.appcheck.command.sarif import sarif
from simulator.appcheck.command.settings_file import app_settings
from simulator.appcheck.command.text_report import WIDTH, lines
from simulator.appcheck.rules import RULES
from simulator.appcheck.timer_schedule import shortest_pause, skips_seconds, unmeant_star
from simulator.host.app.app_model import SettingsError
from singleton.testing import check_app
from tests.support.checked import SETTINGS, checked, imported
from tools import findings

if TYPE_CHECKING:
    from simulator.appcheck.check_report import CheckReport

ROOT = Path(__file__).resolve().parents[4]
CODE = """
@queue()
@singleton(scope="Order.Id", lock_period=45, timeout=30)
def ship(msg: func.QueueMessage) -> None: ...

@app.route(route="a")
@singleton(on_contention="skip")
def order(req: func.HttpRequest) -> str: return "ok"

@timer(schedule="0 0 3 * * *")
def unguarded(clock: func.TimerRequest) -> None: ...
"""
RIGHT = CODE.replace('"skip"', '"conflict"')
HOST = {"singleton": {"lockPeriod": "00:00:30", "handoffWindow": "00:00:10"}}
SETTING = "AzureFunctionsJobHost__singleton__handoffWindow"


@pytest.fixture
def report(tmp_path: Path) -> CheckReport:
    return checked(tmp_path, CODE, HOST, {SETTING: "00:00:20"})


def test_each_option_has_its_value_and_where_it_comes_from(tmp_path: Path) -> None:
    report = checked(tmp_path, RIGHT, HOST, {SETTING: "00:00:20"})
    ship = {each.name: each for each in report.functions[0].guards[0].options}
    assert (ship["lock_period"].value, ship["lock_period"].source) == (45.0, "argument")
    assert (ship["timeout"].value, ship["timeout"].source) == (30.0, "argument")
    assert (ship["handoff_window"].value, ship["handoff_window"].source) == (20.0, f"app setting {SETTING}")
    assert (ship["failover"].value, ship["failover"].source) == (None, "default")
    order = {each.name: each for each in report.functions[1].guards[0].options}
    assert (order["lock_period"].value, order["lock_period"].source) == (30.0, "host.json: singleton.lockPeriod")


def test_a_layout_that_lays_an_option_down_is_its_source(tmp_path: Path) -> None:
    code = "@queue()\n@singleton(scope='Id', layout='dequeueable')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    options = {each.name: each for each in checked(tmp_path, code).functions[0].guards[0].options}
    assert (options["lock_period"].value, options["lock_period"].source) == (60.0, "layout dequeueable")


def test_the_settings_of_the_app_count_and_not_those_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockPeriod", "00:00:20")
    app = imported(tmp_path, "@queue()\n@singleton\ndef ship(msg: func.QueueMessage) -> None: ...\n").app
    given = {**SETTINGS, "AzureFunctionsJobHost__singleton__lockPeriod": "00:00:40"}
    options = check_app(app, settings=given, folder=tmp_path).functions[0].guards[0].options
    assert {each.value for each in options if each.name == "lock_period"} == {40.0}
    assert check_app(app).functions[0].guards[0].options[7].value == 20.0


def test_an_app_may_be_checked_twice(tmp_path: Path) -> None:
    app = imported(tmp_path, RIGHT, HOST).app
    assert check_app(app, settings=SETTINGS).findings == check_app(app, settings=SETTINGS).findings


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(TypeError, match="give a FunctionApp or Blueprint"):
        check_app(object())


def test_assert_ok_says_all_that_was_found(report: CheckReport) -> None:
    with pytest.raises(AssertionError) as failure:
        report.assert_ok()
    said = str(failure.value)
    assert said.startswith("check_app found 1 error, 1 warning, 0 notes:")
    assert re.search(r"function_app\.py:\d+: error: order: on_contention='skip'.* \[skip-on-http\]", said)
    assert "[scope-path-with-dots]" in said


def test_assert_ok_passes_warnings_unless_it_is_strict(tmp_path: Path) -> None:
    found = checked(tmp_path, "@queue()\n@singleton(scope='Order.Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n")
    found.assert_ok()
    with pytest.raises(AssertionError, match="scope-path-with-dots"):
        found.assert_ok(strict=True)


def test_the_page_has_every_finding_as_the_rules_have_it() -> None:
    page = findings.PAGE.read_text("utf-8")
    assert findings.made(page) == page, "run python -m tools.findings"
    assert all(f"| `{rule}` |" in page for rule in RULES)


def test_the_json_has_what_the_page_says(report: CheckReport) -> None:
    found = json.loads(json.dumps(report.to_json()))
    page = (ROOT / "docs/how-to/check.md").read_text("utf-8")
    guard = found["functions"][0]["guards"][0]
    for keys in (found, found["functions"][0], guard, found["findings"][0]):
        for key in keys:
            assert f"`{key}`" in page, key
    assert found["ok"] is False
    assert found["counts"] == {"errors": 1, "warnings": 1, "notes": 0}
    assert guard["blob"] == "locks/<hostId>/ship.{Order.Id}"


# --- SARIF ------------------------------------------------------------------------------------------------------------


def test_the_sarif_has_what_the_standard_requires(report: CheckReport, tmp_path: Path) -> None:
    log = sarif(report.to_json(), tmp_path, tmp_path.parent, "1.0")
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
        assert rule["name"].isidentifier() or "230" in rule["name"]
    assert [result["ruleId"] for result in run["results"]] == ["skip-on-http", "scope-path-with-dots"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        uri = place["artifactLocation"]["uri"]
        assert uri == f"{tmp_path.name}/function_app.py", "relative to the root of the repository"
        line = (tmp_path / "function_app.py").read_text().splitlines()[place["region"]["startLine"] - 1]
        assert line.startswith("@singleton")
    prints = [result["partialFingerprints"]["singletonCheck/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_a_fingerprint_does_not_change_with_the_line(tmp_path: Path) -> None:
    def prints(folder: str, code: str) -> list[str]:
        log = sarif(checked(tmp_path / folder, code, HOST).to_json(), tmp_path / folder, tmp_path / folder, "1.0")
        return [each["partialFingerprints"]["singletonCheck/v1"] for each in log["runs"][0]["results"]]

    assert prints("one", CODE) == prints("other", f"\n\n{CODE}")


def test_a_finding_without_a_place_is_shown_at_host_json(tmp_path: Path) -> None:
    found = checked(tmp_path, CODE, settings={"AzureFunctionsJobHost__singleton__lockTime": "1"}).to_json()
    log = sarif(found, tmp_path, tmp_path, "1.0")
    places = {each["ruleId"]: each["locations"][0]["physicalLocation"] for each in log["runs"][0]["results"]}
    assert places["option-refused"]["artifactLocation"]["uri"] == "host.json"


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbose", [False, True])
def test_the_lines_fit_a_narrow_terminal(report: CheckReport, verbose: bool) -> None:
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines(report.to_json(), "app", verbose=verbose)]
    assert max(map(len, shown)) <= WIDTH
    text = "\n".join(shown)
    assert "    lock     webjobshost/locks/<hostId>/ship.{Order.Id}" in text
    assert "lock_period  45 s        argument" in text or verbose
    assert ("fencing_tokens" in text) == verbose
    assert text.endswith("1 error, 1 warning, 0 notes")


# --- the other parts --------------------------------------------------------------------------------------------------


def test_a_lock_with_another_name_is_found(tmp_path: Path) -> None:
    def of(folder: str, arguments: str) -> dict[str, Any]:
        code = f"@queue()\n@singleton({arguments})\ndef ship(msg: func.QueueMessage) -> None: ...\n"
        return checked(tmp_path / folder, code).to_json()

    old = of("old", "scope='Id', name='send'")
    assert list(renamed(old, of("same", "scope='Id', name='send', timeout=5"))) == []
    assert list(renamed(old, of("both", "scope='Id', also=OldLock(name='send')"))) == []
    (found,) = renamed(old, of("new", "scope='Id'"))
    assert found["id"] == "lock-renamed"
    assert "/send.{Id}, and it is AzureWebJobsStorage: webjobshost/locks/<hostId>/ship.{Id} now" in found["message"]
    unguarded = checked(tmp_path / "none", "@queue()\ndef ship(msg: func.QueueMessage) -> None: ...\n").to_json()
    assert "it has none now" in next(renamed(old, unguarded))["message"]


def _versions(folder: Path, old: str, new: str, names: tuple[str, str] = ("ship", "ship")) -> list[dict[str, Any]]:
    """Return what is found of two versions whose decorator or whose function's name differs."""
    reports = []
    for version, given, name in (("old", old, names[0]), ("new", new, names[1])):
        code = f"@queue()\n@singleton({given})\ndef {name}(msg: func.QueueMessage) -> None: ...\n"
        reports.append(checked(folder / version, code).to_json())
    return list(renamed(*reports))


def test_a_limit_that_comes_or_goes_makes_another_lock(tmp_path: Path) -> None:
    for folder, old, new in (("a", "", "limit=3"), ("b", "limit=1", "")):
        (found,) = _versions(tmp_path / folder, old, new)
        assert found["id"] == "lock-renamed"
        assert "also= does not go with limit: stop all of the old version" in found["message"]
    (found,) = _versions(tmp_path / "c", "limit=3", "limit=5")
    assert (found["id"], "up to 5 run at a time" in found["message"]) == ("limit-changed", True)
    assert _versions(tmp_path / "d", "limit=3", "limit=3, timeout=5") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scope_id='{When:yyyyMM}'", "scope_id='{When:yyyyMMdd}'"),
        ("scope_id='{When:yyyyMM}', scope_hash=True", "scope_id='{When:yyyyMMdd}', scope_hash=True"),
        ("scope_id='{When:MM}'", "scope_id='{When:mm}'"),
        ("scope='Id'", "scope='id'"),
        ("scope='Id'", "scope='OrderId'"),
        ("scope_id='{Id}'", "scope_id='{{Id}}'"),
        ("scope_id='{Id}-A'", "scope_id='{Id}-a'"),
    ],
)
def test_another_way_to_the_value_of_a_scope_is_another_lock(old: str, new: str, tmp_path: Path) -> None:
    (found,) = _versions(tmp_path, old, new)
    assert (found["id"], "also=" in found["message"]) == ("lock-renamed", "-a" in new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scope_id='{id}'", "scope_id='{Id}'"),
        ("scope_id='{order.Id:N}-{when:yyyyMM}'", "scope_id='{Order.id:N}-{When:yyyyMM}'"),
        ("scope_id='{id}', scope_hash=True", "scope_id='{ID}', scope_hash=True"),
        ("scope_id='{id}', layout='webjobs'", "scope_id='{Id}', layout='webjobs'"),
        ("scope='Id'", "scope_id='{Id}'"),
        ("scope_id='{id}', also=OldLock(name='send')", "scope_id='{Id}', also=OldLock(name='send')"),
        ("scope_id='{id}', name='send'", "scope_id='{Id}', also=OldLock(name='send')"),
    ],
)
def test_names_of_a_template_in_another_case_are_the_same_lock(old: str, new: str, tmp_path: Path) -> None:
    assert _versions(tmp_path, old, new) == []


@pytest.mark.parametrize(
    "trigger",
    [
        "@app.event_grid_trigger(arg_name='msg')",
        "@app.route(route='orders/{Id}', trigger_arg_name='msg')",
        "@app.blob_trigger(arg_name='msg', path='in/{Id}', connection='AzureWebJobsStorage')",
        "@queue(data_type='binary')",
    ],
)
@pytest.mark.parametrize("decorator", ["@singleton(timeout=5, scope={})", "@once(key={})"])
def test_where_the_host_s_name_may_be_another_value_than_the_body_s_the_lock_is_another(
    decorator: str, trigger: str, tmp_path: Path
) -> None:
    def version(folder: str, given: str, trigger: str) -> dict[str, Any]:
        code = f"{trigger}\n{given.replace('scope=', 'scope_id=') if '{' in given else given}\ndef ship(msg): ...\n"
        return checked(tmp_path / folder, code).to_json()

    path, template = decorator.format("'Id'"), decorator.format("'{Id}'")
    old = version("old", path, trigger)
    (found,) = renamed(old, version("new", template, trigger))
    assert found["id"] == "lock-renamed"
    assert "a path without braces is looked up in the body alone" in found["message"]
    assert "also=" not in found["message"]
    assert list(renamed(old, version("same", path, trigger))) == []
    assert list(renamed(old, version("text", path, "@queue()"))) == []
    if "binary" in trigger:
        assert next(renamed(version("bytes", template, trigger), version("str", template, "@queue()")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scope='When:MM'", "scope_id='{When:MM}'"),
        ("scope='Order.Id'", "scope_id='{Order.Id}'"),
        ("scope='Id', scope_hash=True", "scope='Id'"),
        ("scope_id='{Id}', scope_hash=True", "scope_id='{Id}'"),
    ],
)
def test_a_path_and_a_template_that_only_look_alike_name_two_locks(old: str, new: str, tmp_path: Path) -> None:
    (found,) = _versions(tmp_path, old, new)
    assert found["id"] == "lock-renamed"


INBOXES = "from singleton import Inbox, ordered\n"


def _decorated(folder: Path, old: str, new: str) -> list[dict[str, Any]]:
    """Return what is found of two versions whose decorators differ."""
    reports = []
    for name, given in (("old", old), ("new", new)):
        code = f"{INBOXES}\n@queue()\n{given}\ndef ship(msg: func.QueueMessage) -> None: ...\n"
        reports.append(checked(folder / name, code).to_json())
    return list(renamed(*reports))


@pytest.mark.parametrize(
    ("old", "new"), [("'Id'", "'OrderId'"), ("'Id'", "'id'"), ("'{Id}'", "'{Id:N}'"), ("len", "'Id'")]
)
def test_another_key_of_once_is_another_lock(old: str, new: str, tmp_path: Path) -> None:
    (found,) = _decorated(tmp_path, f"@once(key={old})", f"@once(key={new})")
    assert found["id"] == "lock-renamed"
    assert "done again" in found["message"]
    assert "also=" not in found["message"]


@pytest.mark.parametrize(("old", "new"), [("'{id}'", "'{Id}'"), ("'Id'", "'{Id}'"), ("len", "str")])
def test_an_equal_key_of_once_is_the_same_lock(old: str, new: str, tmp_path: Path) -> None:
    assert _decorated(tmp_path, f"@once(key={old})", f"@once(key={new})") == []


def test_a_guard_is_compared_with_the_guard_of_its_kind(tmp_path: Path) -> None:
    both = "@once(key='Id')\n@singleton(scope='Id')"
    assert _decorated(tmp_path / "same", both, both) == []
    (found,) = _decorated(tmp_path / "key", both, both.replace("key='Id'", "key='Name'"))
    assert "once/<hostId>/ship/{Id}, and it is AzureWebJobsStorage: webjobshost/once/" in found["message"]
    (found,) = _decorated(tmp_path / "inbox", "@ordered(Inbox('orders'))", "@ordered(Inbox('parcels'))")
    assert "inbox/orders/keys/{key}, and it is AzureWebJobsStorage: webjobshost/inbox/parcels/" in found["message"]
    (found,) = _decorated(tmp_path / "gone", "@ordered(Inbox('orders'))", "")
    assert "it has none now" in found["message"]


def test_where_also_goes_it_is_said_that_tokens_may_go_back(tmp_path: Path) -> None:
    (found,) = _versions(tmp_path / "a", "scope='Id', also=OldLock(name='send')", "scope='Id'")
    assert (found["id"], found["severity"], found["function"]) == ("also-removed", "warning", "ship")
    assert "the lock was also webjobshost/locks/<hostId>/send.{Id}. A key whose last use was under" in found["message"]
    assert "singleton-locks ahead" in found["message"]
    hashed = "scope='Id', scope_hash=True"
    (found,) = _versions(tmp_path / "b", f"{hashed}, also=OldLock(scope_hash=False)", hashed)
    assert found["id"] == "also-removed"
    two = _versions(tmp_path / "c", "also=OldLock(name='send')", "name='third', also=OldLock(name='ship')")
    assert [each["id"] for each in two] == ["also-removed"]
    kept = "also=OldLock(name='send')"
    for folder, old, new in (
        ("d", kept, f"{kept}, timeout=5"),
        ("e", "also=OldLock(layout='webjobs')", ""),
        ("f", "layout='webjobs', also=OldLock(layout='default')", "layout='webjobs'"),
    ):
        assert _versions(tmp_path / folder, old, new) == []
    (back,) = _versions(tmp_path / "g", kept, "name='send'")
    assert back["id"] == "lock-renamed"


def test_a_function_that_was_renamed_is_known_by_its_trigger(tmp_path: Path) -> None:
    (found,) = _versions(tmp_path / "a", "scope='Id'", "scope='Id'", ("send", "ship"))
    assert (found["id"], found["function"]) == ("lock-renamed", "ship")
    assert "send seems to be ship now: its lock was" in found["message"]
    assert "also=OldLock(name='send')" in found["message"]
    assert _versions(tmp_path / "b", "", "name='send'", ("send", "ship")) == []
    assert _versions(tmp_path / "c", "", "also=OldLock(name='send')", ("send", "ship")) == []
    assert _versions(tmp_path / "d", "scope_id='x', level='host'", "scope_id='x', level='host'", ("a", "b")) == []


def test_what_is_cut_off_a_long_name_is_compared_all_the_same(tmp_path: Path) -> None:
    old, new = (f"scope_id='{'x' * 240}{end}', level='host'" for end in "ab")
    (found,) = _versions(tmp_path, old, new)
    assert "~<hash> now (what is cut off differs)" in found["message"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"IsEncrypted": false, "Values": {"A": "1"}}', {"A": "1"}),
        ('[{"name": "A", "value": "1", "slotSetting": false}]', {"A": "1"}),
        ('{"A": "1", "B": 2, "C": null}', {"A": "1", "B": "2"}),
    ],
)
def test_settings_are_read_in_each_of_their_forms(text: str, found: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text)
    assert app_settings(tmp_path / "settings.json") == found


def test_settings_of_no_form_are_refused_without_their_values(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('["AccountKey=secret"]')
    with pytest.raises(SettingsError, match="give an object of settings") as refusal:
        app_settings(tmp_path / "settings.json")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("0 */5 * * * *", 300),
        ("*/30 * * * * *", 30),
        ("0 0 3 * * *", 86_400),
        ("0 0 3,15 * * 1-5", 43_200),
        ("5,7 * * * * *", 2),
        ("*/5 * * * *", 300),
        ("0 0 8-10/2 * * *", 7200),
        ("01:30:00", 5400),
        ("00:00:00", None),
        ("-00:00:05", None),
        ("%WHEN%", None),
        ("0 99 * * * *", None),
        ("a b c d e f", None),
        ("0 0/0 * * * *", None),
    ],
)
def test_the_shortest_pause_of_a_schedule(schedule: str, seconds: float | None) -> None:
    assert shortest_pause(schedule) == seconds


@pytest.mark.parametrize(
    ("schedule", "unit"),
    [
        ("* */15 * * * *", "second"),
        ("* 30 9 * * *", "second"),
        ("* * 9 * * *", "second"),
        ("*/1 */5 * * * *", "second"),
        ("* */15 * * *", "minute"),
        ("0 * */2 * * *", "minute"),
        ("* * * * * *", None),
        ("*/15 * * * * *", None),
        ("0 * * * * *", None),
        ("* * * * *", None),
        ("0 * 9-17 * * 1-5", None),
        ("0 */15 * * * *", None),
        ("*/15 * * * *", None),
        ("0 0 */2 * * *", None),
        ("00:15:00", None),
        ("never", None),
        ("a b c d e f", None),
    ],
)
def test_a_star_that_makes_a_timer_tick_too_often_is_known(schedule: str, unit: str | None) -> None:
    assert unmeant_star(schedule) == unit


@pytest.mark.parametrize(
    ("schedule", "skips"),
    [
        ("*/20 30 * * * *", True),
        ("0,1 * 9 * * *", True),
        ("5-6 */2 * * * *", True),
        ("*/20 * * * * *", False),
        ("*/20 * * * * 1", False),
        ("5 30 * * * *", False),
        ("30 * * * *", False),
        ("00:15:00", False),
        ("a b c d e f", False),
    ],
)
def test_a_schedule_with_several_seconds_in_some_minutes_is_known(schedule: str, skips: bool) -> None:
    assert skips_seconds(schedule) is skips


def test_no_connection_string_is_in_a_report(tmp_path: Path) -> None:
    code = """
    @queue()
    @singleton(connection="AccountName=orders;AccountKey=c2VjcmV0")
    def ship(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(connection="Locks")
    def read(msg: func.QueueMessage) -> None: ...
    """
    found = checked(tmp_path, code, settings={"Locks": "AccountName=a;AccountKey=dGhpcw;AccountKey=dGhpcw"})
    written = json.dumps(found.to_json(), ensure_ascii=False)
    assert {"connection-string-in-code", "connection-wrong"} <= {each.id for each in found.findings}
    assert "c2VjcmV0" not in written
    assert "dGhpcw" not in written


def test_notes_are_told(tmp_path: Path) -> None:
    code = """
    @app.route(route="a")
    @singleton
    def order(req: func.HttpRequest) -> str: return "ok"

    @queue()
    @singleton(on_contention="raise")
    def ship(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(on_contention="skip")
    def read(msg: func.QueueMessage) -> None: ...

    @timer(schedule="*/10 * * * * *")
    @singleton(scope_id="x", level="host")
    def beat(clock: func.TimerRequest) -> None: ...

    @queue()
    @singleton(scope_id="x", level="host")
    def last(msg: func.QueueMessage) -> None: ...
    """
    assert {each.id for each in checked(tmp_path, code).notes} == {
        "http-wait-unbounded",
        "raise-comes-back-at-once",
        "shared-lock",
        "skip-drops-message",
        "timer-wait-unbounded",
    }
    waiting = "@queue()\n@singleton(timeout=120)\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    options = {"extensions": {"queues": {"visibilityTimeout": "00:00:30"}}}
    assert {each.id for each in checked(tmp_path / "a", waiting, options).notes} == {"visibility-timeout-no-bound"}
    coalesce = "@singleton(on_contention='coalesce')"
    ticks = f"@timer(schedule='0 */5 * * * *')\n{coalesce}\ndef tidy(clock: func.TimerRequest) -> None: ...\n"
    (found,) = checked(tmp_path / "d", ticks).notes
    assert (found.id, "only the next arrival brings a run" in found.message) == ("coalesce-next-arrival", True)
    seconds = ticks.replace("0 */5", "*/20 */15").replace("coalesce", "skip")
    (found,) = checked(tmp_path / "f", seconds).notes
    assert (found.id, "several seconds" in found.message) == ("timer-skips-seconds", True)
    counted = f"@bus()\n{coalesce}\ndef ship(msg: func.ServiceBusMessage) -> None: ...\n"
    assert checked(tmp_path / "e", counted).findings == ()
    output = "@queue()\n@app.queue_output(arg_name='out', queue_name='o', connection='AzureWebJobsStorage')\n"
    sends = "def ship(msg: func.QueueMessage, out: func.Out[str]) -> None: ...\n"
    (found,) = checked(tmp_path / "f", f"{output}@once(key='Id')\n{sends}").notes
    assert (found.id, "sends the output 'out' again" in found.message) == ("repeat-sends-again", True)
    assert checked(tmp_path / "g", f"{output}@once(key='Id', outputs='first')\n{sends}").findings == ()
    constant = "@queue()\n@singleton(scope_id='Id')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    (found,) = checked(tmp_path / "c", constant).notes
    assert (found.id, "write scope_id='{Id}' or scope='Id'" in found.message) == ("scope-is-constant", True)
    bare = check_app(imported(tmp_path / "b", "@queue()\ndef ship(msg: func.QueueMessage) -> None: ...\n").app)
    assert {each.id for each in bare.notes} == {"nothing-guarded", "settings-not-known"}


@pytest.mark.parametrize(
    "code",
    [
        "@queue()\n@locks.lock('a')\ndef ship(msg: func.QueueMessage) -> None: ...\n",
        "@queue()\ndef ship(msg: func.QueueMessage) -> None:\n    with locks.lock('a'): ...\n",
        "@queue()\ndef ship(msg: func.QueueMessage) -> None:\n    with LockClient('Bus') as own, own.lock('a'): ...\n",
    ],
)
def test_an_app_with_a_lock_client_is_not_told_that_nothing_is_guarded(tmp_path: Path, code: str) -> None:
    own = "from singleton import LockClient\n" + (
        "" if "own" in code else "locks = LockClient('AzureWebJobsStorage')\n"
    )
    assert checked(tmp_path, own + code).notes == ()


def test_without_settings_a_trigger_s_name_is_a_warning_and_its_connection_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AzureWebJobsStorage", raising=False)
    code = "@bus()\n@singleton\ndef ship(msg: func.ServiceBusMessage) -> None: ...\n"
    timer = "@timer(schedule='%WHEN%')\ndef tidy(clock: func.TimerRequest) -> None: ...\n"
    found = check_app(imported(tmp_path, code + timer).app)
    assert ([each.id for each in found.warnings], found.errors) == (["setting-unset"], ())


def test_without_settings_the_connection_of_a_lock_is_an_error_all_the_same(tmp_path: Path) -> None:
    code = "@queue()\n@singleton(connection='Locks')\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    found = check_app(imported(tmp_path, code).app)
    assert [each.id for each in found.errors] == ["connection-unset"]
