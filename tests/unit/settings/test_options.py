"""Options: defaults, ranges, host.json, app settings (W-17 to W-27, H-30, H-31)."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import inspect
import json
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singleton import singleton
from singleton.base.errors import ConfigurationError
from singleton.settings import options as options_module
from singleton.settings.options import FOR_ONE_FUNCTION, SingletonOptions, find_app_dir, load_options

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "AzureFunctionsJobHost__singleton__"


def host_json(folder: Path, section: object) -> Path:
    (folder / "host.json").write_text(json.dumps({"version": "2.0", "singleton": section}))
    return folder


def refusal(folder: Path | None, app_settings: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_options(folder, app_settings)
    return str(caught.value)


def test_the_defaults_are_those_of_webjobs_and_ours() -> None:
    assert dataclasses.asdict(SingletonOptions()) == {
        "lock_period": 15.0,  # W-17
        "listener_lock_period": 60.0,  # W-18
        "lock_acquisition_timeout": None,  # W-19
        "lock_acquisition_polling_interval": 5.0,  # W-20
        "lock_acquisition_min_polling_interval": 0.1,
        "listener_lock_recovery_polling_interval": 60.0,  # W-21
        "renewal_interval": None,
        "handoff_window": 30.0,
        "defer_delay": 10.0,
        "failover": None,
        "fencing_tokens": True,
        "cancel_on_loss": True,
        "container": "webjobshost",  # D-8
        "host_id": None,
        "enabled": True,
        "fail_fast": True,
        "http": "direct",
        "local_run_warning": True,
    }


RANGES: list[tuple[str, list[object], list[object]]] = [  # option, accepted, refused
    ("lock_period", [15, 16, 59, 60, timedelta(minutes=1)], [0, 14, 14.999, 15.5, 60.01, 61, None, "15"]),  # W-17
    ("listener_lock_period", [15, 60], [14, 61, -1, True]),  # W-18
    ("lock_acquisition_timeout", [0.001, 5, 1e6, None], [0, -1, float("nan"), float("inf")]),  # W-19
    ("lock_acquisition_polling_interval", [0.5, 1, 3600], [0.499, 0, -1, None]),  # W-20
    ("lock_acquisition_min_polling_interval", [0.01, 0.5, 5], [0.009, 0, 5.001]),
    ("listener_lock_recovery_polling_interval", [15, 300, None], [14.999, 0]),  # W-21
    ("handoff_window", [0, 0.5, 100], [-0.001, None]),
    ("fencing_tokens", [True, False], [1, 0, None, "true"]),
    ("cancel_on_loss", [True, False], ["no", None]),
    ("enabled", [True, False], [1, "false"]),
    ("container", ["abc", "a1-b2", "a" * 63], ["ab", "Abc", "a--b", "-ab", "a" * 64, "", None, 5]),  # S-5
    ("http", ["direct", "sdk"], ["SDK", "", None, True]),
    ("host_id", ["orders", "Any Text", None], ["", " ", 5]),
]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, good, _ in RANGES for value in good])
def test_values_in_range_are_accepted(name: str, value: object) -> None:
    got = getattr(SingletonOptions().replace(**{name: value}), name)
    assert got == (value.total_seconds() if isinstance(value, timedelta) else value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, _, bad in RANGES for value in bad])
def test_values_out_of_range_are_refused_with_name_and_value(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SingletonOptions(**{name: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(name)
    assert (f"{value:g}" if isinstance(value, float) else repr(value)) in message
    assert ": give " in message or "must be" in message or "more than" in message or "container name" in message


def test_the_range_is_part_of_the_message() -> None:
    with pytest.raises(ConfigurationError, match=r"lock_period is 14: it must be from 15 to 60 seconds"):
        SingletonOptions(lock_period=14)


def test_an_option_that_may_be_without_limit_says_how() -> None:
    with pytest.raises(ConfigurationError, match=r"more than 0 seconds, or None for no limit"):
        SingletonOptions(lock_acquisition_timeout=0)
    with pytest.raises(ConfigurationError, match=r"at least 15 seconds, or None"):
        SingletonOptions(listener_lock_recovery_polling_interval=14)


def test_the_first_wait_may_not_be_longer_than_the_longest() -> None:
    with pytest.raises(
        ConfigurationError, match=r"min_polling_interval is 2 seconds, more than .*_polling_interval, 1 second"
    ):
        SingletonOptions(lock_acquisition_min_polling_interval=2, lock_acquisition_polling_interval=1)


def test_options_are_values_that_can_be_compared_hashed_and_pickled() -> None:
    options = SingletonOptions(lock_period=30)
    assert options == SingletonOptions(lock_period=30.0) != SingletonOptions()
    assert len({options, options.replace()}) == 1
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.lock_period = 20  # type: ignore[misc]


def test_replacing_an_option_that_does_not_exist_names_the_close_one() -> None:
    with pytest.raises(ConfigurationError, match=r"no option 'lock_perod'; did you mean 'lock_period'\?"):
        SingletonOptions().replace(lock_perod=15)


def test_options_print_as_the_five_keys_of_webjobs() -> None:
    """W-22."""
    assert str(SingletonOptions(lock_acquisition_polling_interval=0.5)) == (
        "{\n"
        '  "LockPeriod": "00:00:15",\n'
        '  "ListenerLockPeriod": "00:01:00",\n'
        '  "LockAcquisitionTimeout": "10675199.02:48:05.4775807",\n'
        '  "LockAcquisitionPollingInterval": "00:00:00.5000000",\n'
        '  "ListenerLockRecoveryPollingInterval": "00:01:00"\n'
        "}"
    )


def test_type_checkers_know_all_options() -> None:
    """The arguments that they see are written by hand, so that durations may be a ``timedelta``."""
    (written,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(options_module)))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    seen = {each.arg: ast.unparse(each.annotation) for each in written.args.kwonlyargs if each.annotation}
    kept = {field.name: str(field.type) for field in dataclasses.fields(SingletonOptions)}
    durations = {name: kept[name].replace("float", "Seconds") for name in options_module.DURATIONS}
    assert seen == {name: ast.unparse(ast.parse(kind)) for name, kind in (kept | durations).items()}
    assert list(seen) == list(kept)


# Loading


@pytest.mark.parametrize("written", ["10675199.02:48:05", "10675199.02:48:05.4775807"])
def test_the_longest_time_span_is_no_limit_with_its_fraction_and_without(tmp_path: Path, written: str) -> None:
    section = {"lockAcquisitionTimeout": written, "listenerLockRecoveryPollingInterval": written}
    options = load_options(host_json(tmp_path, section), {})
    assert (options.lock_acquisition_timeout, options.listener_lock_recovery_polling_interval) == (None, None)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("timeout", "there is no option 'timeout'; did you mean 'lockAcquisitionTimeout'?"),
        *(
            (key, "for the whole app: give at_least to each @singleton that needs it")
            for key in ("atLeast", "at_least")
        ),
    ],
)
def test_a_key_that_is_an_argument_of_the_decorator_says_where_it_goes(tmp_path: Path, key: str, told: str) -> None:
    assert told in refusal(host_json(tmp_path, {key: "00:00:30"}), {})
    assert told.partition(": ")[2] in refusal(None, {f"{PREFIX}{key}": "00:00:30"})


def test_each_argument_of_the_decorator_is_an_option_of_the_app_or_for_one_function() -> None:
    arguments = {*inspect.signature(singleton).parameters} - {"function", "unknown"}
    kept = {field.name for field in dataclasses.fields(SingletonOptions)}
    assert arguments - kept == {*FOR_ONE_FUNCTION, "timeout"}


def test_without_host_json_and_settings_the_defaults_hold(tmp_path: Path) -> None:
    assert load_options(None, {}) == load_options(tmp_path, {"PATH": "x"}) == SingletonOptions()


def test_host_json_is_read_whatever_the_case_of_its_keys(tmp_path: Path) -> None:
    """W-23."""
    section = {
        "lockPeriod": "00:00:30",
        "LISTENERLOCKPERIOD": "00:00:45",
        "lockAcquisitionTimeout": "00:01:00",
        "LockAcquisitionPollingInterval": "00:00:02.5",
        "lockAcquisitionMinPollingInterval": "00:00:00.25",
        "listenerLockRecoveryPollingInterval": "00:00:15",
        "handoffWindow": "00:00:00",
        "fencingTokens": False,
        "cancelOnLoss": "False",
        "container": "my-locks",
        "hostId": "fleet",
        "enabled": "true",
    }
    assert load_options(host_json(tmp_path, section), {}) == SingletonOptions(
        lock_period=30,
        listener_lock_period=45,
        lock_acquisition_timeout=60,
        lock_acquisition_polling_interval=2.5,
        lock_acquisition_min_polling_interval=0.25,
        listener_lock_recovery_polling_interval=15,
        handoff_window=0,
        fencing_tokens=False,
        cancel_on_loss=False,
        container="my-locks",
        host_id="fleet",
        enabled=True,
    )


def test_app_settings_win_over_host_json(tmp_path: Path) -> None:
    """H-31."""
    folder = host_json(tmp_path, {"lockPeriod": "00:00:30", "handoffWindow": "00:00:05"})
    loaded = load_options(
        folder, {PREFIX + "lockPeriod": "00:00:20", "azurefunctionsjobhost:SINGLETON:enabled": "FALSE"}
    )
    assert loaded == SingletonOptions(lock_period=20, handoff_window=5, enabled=False)


def test_the_longest_time_span_means_no_limit(tmp_path: Path) -> None:
    """W-19, W-21."""
    longest = "10675199.02:48:05.4775807"
    folder = host_json(tmp_path, {"lockAcquisitionTimeout": longest, "listenerLockRecoveryPollingInterval": longest})
    loaded = load_options(folder, {})
    assert (loaded.lock_acquisition_timeout, loaded.listener_lock_recovery_polling_interval) == (None, None)


def test_null_in_host_json_means_no_limit_where_none_does(tmp_path: Path) -> None:
    folder = host_json(tmp_path, {"lockAcquisitionTimeout": None, "listenerLockRecoveryPollingInterval": None})
    loaded = load_options(folder, {})
    assert (loaded.lock_acquisition_timeout, loaded.listener_lock_recovery_polling_interval) == (None, None)


def test_a_section_inside_extensions_is_refused_and_its_place_named(tmp_path: Path) -> None:
    """H-31: the host doesn't read it there either, so a lock would have the defaults without a word."""
    (tmp_path / "host.json").write_text('{"Extensions": {"queues": {}, "Singleton": {"lockPeriod": "00:00:30"}}}')
    message = refusal(tmp_path, {})
    assert 'has the section "Singleton" inside "extensions", where it has no effect' in message
    assert "move it to the top level" in message
    message = refusal(None, {"AzureFunctionsJobHost:extensions:singleton:lockPeriod": "00:00:30"})
    assert "has no effect: the options are AzureFunctionsJobHost__singleton__…" in message


def test_a_long_range_is_told_in_days() -> None:
    with pytest.raises(ConfigurationError, match=r"defer_delay is 604801: it must be from 1 second to 7 days$"):
        SingletonOptions(defer_delay=604_801)


def test_what_webjobs_prints_can_be_read_back(tmp_path: Path) -> None:
    options = SingletonOptions(lock_period=45, lock_acquisition_polling_interval=1.25)
    assert load_options(host_json(tmp_path, json.loads(str(options))), {}) == options


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"lockPeriod": 15}, "singleton.lockPeriod: a bare number (15) would be read as days by the Functions host"),
        ({"lockPeriod": 15}, 'write "hh:mm:ss"; if seconds are meant, write "00:00:15"'),
        ({"lockPeriod": "15"}, "singleton.lockPeriod: a bare number (15) would be read as days"),
        ({"lockPeriod": 0.5}, "a bare number (0.5) would be read as days"),
        (
            {"lockPeriod": "00:00:14"},
            'is \'00:00:14\': it must be from 15 to 60 seconds, in whole seconds ("00:00:15" to "00:01:00")',
        ),
        ({"lockPeriod": "soon"}, "singleton.lockPeriod: 'soon' is not a time span: write hh:mm:ss"),
        ({"lockPeriod": None}, "singleton.lockPeriod is null: leave it out to have the default"),
        ({"lockPeriod": True}, "singleton.lockPeriod is true: write a time span"),
        ({"lockPeriod": {"s": 1}}, "singleton.lockPeriod is {'s': 1}: write a time span"),
        (
            {"lockAcquisitionTimeout": "00:00:00"},
            "is '00:00:00': it must be more than 0 seconds, or null in host.json for no limit",
        ),
        ({"enabled": 1}, "singleton.enabled is 1: give true or false"),
        ({"http": "SDK"}, "singleton.http is 'SDK': give direct or sdk"),
        ({"enabled": "yes"}, "singleton.enabled is 'yes': give true or false"),
        ({"enabled": None}, "singleton.enabled is null: leave it out"),
        ({"container": "My_Locks"}, "singleton.container: container name 'My_Locks' may have only lower-case letters"),
        ({"hostId": 7}, "singleton.hostId is 7: give a text"),
        ({"lockPerod": "00:00:15"}, "singleton.lockPerod: there is no option 'lockPerod'; did you mean 'lockPeriod'?"),
        ({"lockPerod": "00:00:15"}, "The options are lockPeriod, listenerLockPeriod,"),
        ({"zzz": 1}, "singleton.zzz: there is no option 'zzz'. The options are"),
        ({"lockPeriod": "00:00:15", "LockPeriod": "00:00:20"}, "singleton.LockPeriod is given twice, also as"),
        (
            {"lockAcquisitionMinPollingInterval": "00:00:09"},
            "lock_acquisition_min_polling_interval is 9 seconds, more than",
        ),
        ("15", "singleton is '15': write an object"),
        (["lockPeriod"], "singleton is ['lockPeriod']: write an object"),
    ],
)
def test_a_mistake_in_host_json_is_refused_with_file_key_value_and_remedy(
    tmp_path: Path, section: object, expected: str
) -> None:
    message = refusal(host_json(tmp_path, section), {})
    assert message.startswith(str(tmp_path / "host.json"))
    assert expected in message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            PREFIX + "lockPeriod",
            "00:02:00",
            f"app setting {PREFIX}lockPeriod is '00:02:00': it must be from 15 to 60 seconds",
        ),
        (PREFIX + "LOCKPERIOD", "15", f"app setting {PREFIX}LOCKPERIOD: a bare number (15)"),
        (PREFIX + "hostId", "", f"app setting {PREFIX}hostId is '': give a text"),
        (PREFIX + "lock_period", "00:00:15", "no option 'lock_period'; did you mean 'lockPeriod'?"),
        (PREFIX + "lockPeriod__x", "1", "no option 'lockperiod__x'"),
    ],
)
def test_a_mistake_in_an_app_setting_is_refused_with_its_name(name: str, value: str, expected: str) -> None:
    assert expected in refusal(None, {name: value})


def test_two_spellings_of_one_setting_are_refused() -> None:
    message = refusal(None, {PREFIX + "lockPeriod": "00:00:15", PREFIX.lower() + "lockperiod": "00:00:20"})
    assert "is given twice" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version": "2.0",\n "singleton": {\n}', "is not valid JSON at line 3, column 2"),
        ("", "is not valid JSON at line 1, column 1"),
        ("[]", "has no JSON object in it"),
        ('{"singleton": {}, "Singleton": {}}', 'has the section "singleton" 2 times'),
        ('{"singleton": {"enabled": true, "enabled": false}}', "singleton.enabled is given twice"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"singleton": {"lockPeriod": ' + "9" * 5000 + "}}", "is not valid JSON"),
        ('{"singleton": {"lockPeriod": NaN}}', "a bare number (nan)"),
    ],
)
def test_a_broken_host_json_is_refused_with_its_path(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "host.json").write_text(text)
    message = refusal(tmp_path, {})
    assert message.startswith(str(tmp_path / "host.json"))
    assert expected in message


def test_a_host_json_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_bytes(b'{"a": "\xff"}')
    assert "can't be read" in refusal(tmp_path, {})
    (tmp_path / "host.json").unlink()
    (tmp_path / "host.json").mkdir()
    assert "can't be read" in refusal(tmp_path, {})


def test_comments_and_last_commas_are_no_errors_as_for_the_host(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(
        '\ufeff{ // version\n "version": "2.0", /* a\n comment */ "singleton": {"hostId": "a//b,]\\"/*" // x\n },\n}\n',
        encoding="utf-8",
    )
    assert load_options(tmp_path, {}).host_id == 'a//b,]"/*'


def test_the_position_is_right_behind_comments(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{ /* one\n two */\n "singleton": {"hostId": oops}}')
    assert "line 3, column 26" in refusal(tmp_path, {})


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["singleton", "lockPeriod", "handoffWindow", "enabled", "container"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_any_host_json_is_loaded_or_refused_as_configuration(tmp_path: Path, root: object) -> None:
    (tmp_path / "host.json").write_text(json.dumps(root))
    try:
        loaded = load_options(tmp_path, {})
    except ConfigurationError:
        return
    assert 15 <= loaded.lock_period <= 60


# Where host.json is


def test_the_app_is_where_the_script_root_says(tmp_path: Path) -> None:
    app, other = tmp_path / "app", tmp_path / "other"
    for folder in (app, other):
        folder.mkdir()
        host_json(folder, {})
    assert find_app_dir(other, {"AzureWebJobsScriptRoot": str(app)}) == app
    assert find_app_dir(other, {"AZUREWEBJOBSSCRIPTROOT": str(app)}) == app


def test_else_it_is_the_nearest_folder_upwards_with_a_host_json(tmp_path: Path) -> None:
    inner = tmp_path / "pkg" / "sub"
    inner.mkdir(parents=True)
    assert find_app_dir(inner, {}) is None
    host_json(tmp_path, {})
    assert find_app_dir(inner, {}) == tmp_path
    assert find_app_dir(inner, {"AzureWebJobsScriptRoot": str(tmp_path / "missing")}) == tmp_path
    host_json(inner, {})
    assert find_app_dir(inner, {}) == inner


def test_a_script_root_without_host_json_is_better_than_nothing(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    assert find_app_dir(tmp_path, {"AzureWebJobsScriptRoot": str(tmp_path / "app")}) == tmp_path / "app"


def test_the_examples_are_right() -> None:
    result = doctest.testmod(options_module)
    assert result.attempted
    assert not result.failed
