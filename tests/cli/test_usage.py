"""What is wrong with the options or the app is said in one line, with what to do; never in a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.running import Sim

REAL = "DefaultEndpointsProtocol=https;AccountName=production;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command in this process; return its exit code and its one line."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("singleton-sim: ")
    assert isinstance(caught.value.code, int)
    return caught.value.code, captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--hosts", "0"), ["--hosts 0", "1 to 100"]),
        (("--hosts", "five"), ["--hosts", "'five'"]),
        (("--kill", "9", "--hosts", "5"), ["--kill 9 --hosts 5", "0 to 4", "--hosts 10 or more"]),
        (("--kill", "-1"), ["--kill -1", "0 to 4"]),
        (("--duration", "-3"), ["--duration -3", "from 1 to 3600 seconds"]),
        (("--duration", "nan"), ["--duration nan"]),
        (("--timer-every", "-1"), ["--timer-every -1"]),
        (("--visibility", "0"), ["--visibility 0", "2 to 600"]),
        (("--seed", "-7"), ["--seed -7"]),
        (("--messages", "/nope"), ["--messages /nope", "No such file"]),
        (("--app", "/"), ["--app /", "no function_app.py"]),
        (("--faults", "kil"), ["--faults kil", "did you mean 'kill'?"]),
        (("--faults", "all", "--fault-every", "soon"), ["--fault-every", "'soon' is no duration", "30s"]),
        (("--faults", "all", "--storage", REAL, "--allow-cloud"), ["--storage", "does not read HTTPS"]),
        (("--app", "nowhere"), ["nowhere", "no such folder", "function_app.py"]),
        (("--app", "/dev/null"), ["/dev/null", "not a folder"]),
        (("--nonsense",), ["--nonsense"]),
        (("--report", "/nowhere/run.html"), ["--report /nowhere/run.html", "no folder /nowhere", "another path"]),
        (("--report", "/dev"), ["--report /dev", "it is a folder", "a file in it"]),
        (("--report", "/dev/null"), ["--report /dev/null", "no regular file"]),
        (("--report", "x.html", "--trace", "./x.html"), ["--report and --trace are both", "a file of its own"]),
        (("explore", "--report", "x", "--trace", "x"), ["--report and --trace are both x", "a file of its own"]),
        (("explore", "--story", "x", "--trace", "x"), ["--trace would overwrite x", "--story", "file of its own"]),
        (("--messages", "x", "--report", "./x"), ["--report would overwrite x, which is --messages"]),
        (("replay", "x", "--report", "x"), ["--report would overwrite x, which is --story"]),
        (("pilot", "--connection", "N", "--json", "x", "--report", "x"), ["--json and --report are both x"]),
        (("explore", "--report", "/nowhere/run.html"), ["--report /nowhere/run.html", "no folder /nowhere"]),
        (("--host", "5"), ["--host", "--hosts"]),
        (("explode",), ["explode"]),
        (("--storage", "nonsense"), ["--storage can't be parsed"]),
        (("--storage", "AccountName=x"), ["--storage has no key"]),
        (("--storage", REAL), ["production.blob.core.windows.net", "not on this machine", "--allow-cloud"]),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: list[str]
) -> None:
    code, text = complaint(capsys, *arguments)
    assert code == 2
    for word in words:
        assert word in text
    assert "c2VjcmV0" not in text


def test_the_environments_storage_is_checked_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINGLETON_SIM_STORAGE", REAL)
    assert complaint(capsys)[0] == 2


def test_help_and_version_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    for argument, words in (("--help", "singleton-sim --hosts 5 --kill 1"), ("--version", "singleton-sim, version")):
        with pytest.raises(SystemExit) as caught:
            main([argument])
        assert not caught.value.code
        assert words in capsys.readouterr().out


GOOD = "import azure.functions as func\napp = func.FunctionApp()\n"
TIMER = (
    '@app.timer_trigger(arg_name="timer", schedule="0 0 * * * *")\ndef tick(timer: func.TimerRequest) -> None: ...\n'
)
QUEUE = (
    '@app.queue_trigger(arg_name="m", queue_name="q1q", connection="")\ndef take(m: func.QueueMessage) -> None: ...\n'
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nonexistent_module\n", ["does not import", "nonexistent_module", "requirements"]),
        ("def broken(:\n", ["function_app.py, line 1", "SyntaxError"]),
        ("1 / 0\n", ["line 1", "ZeroDivisionError"]),
        ("print('hello')\n", ["no function app at its top level", "func.FunctionApp()"]),
        (GOOD, ["has no functions"]),
        (GOOD + TIMER + "other = func.FunctionApp()\n", ["2 top-level function apps (app, other)"]),
        (None, ["no function_app.py", "give the folder"]),
    ],
)
def test_an_app_that_cannot_run_is_named_with_the_remedy(
    sim: Callable[..., Sim], tmp_path: Path, storage: str, source: str | None, words: list[str]
) -> None:
    app = tmp_path / "app"
    app.mkdir()
    if source is not None:
        (app / "function_app.py").write_text(source)
    run = sim("--app", str(app), SINGLETON_SIM_STORAGE=storage)
    assert run.wait() == 2
    assert run.errors.count("\n") == 1
    for word in (str(app), *words):
        assert word in run.errors
    assert run.left_behind() == []


def test_a_broken_app_is_told_without_waiting_for_azurite(sim: Callable[..., Sim], tmp_path: Path) -> None:
    (tmp_path / "function_app.py").write_text("1 / 0")
    run = sim("--app", str(tmp_path))
    assert run.wait() == 2
    assert "ZeroDivisionError" in run.errors
    assert run.left_behind() == []


def test_messages_for_a_queue_that_no_function_listens_to_are_refused(
    sim: Callable[..., Sim], tmp_path: Path, storage: str
) -> None:
    (tmp_path / "function_app.py").write_text(GOOD + QUEUE)
    (tmp_path / "messages").write_text('{"queue": "q1q", "body": 1}\n{"queue": "other", "body": 1}\n')
    run = sim("--app", str(tmp_path), "--messages", str(tmp_path / "messages"), "--storage", storage)
    assert run.wait() == 2
    assert "line 2: the app listens to no queue 'other', but to 'q1q'" in run.errors
    assert run.left_behind() == []
