"""The real Python worker, asked what becomes of every value at every output, against the fake host's answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.host.triggers.bindings import Out
from simulator.host.triggers.outputs import OutputError, given_back
from tests.integration.workers import Worker, needs_worker
from tests.support.output_table import EXPECTED, VALUES, function_name, functions

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.host.app.app_model import IndexedFunction

pytestmark = needs_worker
APP = "from tests.support.output_table import make_app\napp = make_app()\n"


def test_the_fake_host_sends_and_refuses_what_the_worker_does(tmp_path: Path) -> None:
    (tmp_path / "function_app.py").write_text(APP)
    worker = Worker(tmp_path, "UseDevelopmentStorage=true", tmp_path / "journal")
    try:
        assert worker.functions() == sorted(function_name(output) for output in EXPECTED)
        cases = [(output, value) for output in EXPECTED for value in VALUES]
        worker.ask([(function_name(output), "msg", value) for output, value in cases])
        answers = worker.answer()
    finally:
        worker.end()
    real = {
        case: "refused" if answer["error"] else told(answer["sent"])
        for case, answer in zip(cases, answers, strict=True)
    }
    indexed = functions()
    fake = {(output, value): answered(indexed[output], value) for output, value in cases}
    assert {case: (real[case], fake[case]) for case in cases if real[case] != fake[case]} == {}
    assert {answer == "refused" for answer in real.values()} == {True, False}


def answered(function: IndexedFunction, value: str) -> Any:
    outputs = {name: Out() for name in function.outputs}
    try:
        result = function.call(msg=value, **outputs)
        return told([(data.kind, repr(data.value)) for _, data in given_back(function, outputs, result)])
    except (OutputError, RuntimeError):
        return "refused"


def told(sent: Any) -> list[tuple[str, str]]:
    # An HTTP response is an object of the protocol there.
    return [(kind, "" if kind == "http" else value) for kind, value in sent]
