"""The storm: fake Functions hosts as real processes, whose locks are in the account, and some are killed and paused.

Only locks reach the account. Timers and the messages of a broker on this machine bring the work.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import unproven, violation
from simulator.checks.reports import CheckResult
from simulator.real.run import RunTrouble, run
from simulator.work.scenario import Scenario
from singleton.base.appsettings import normalised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.real.run import RunOutcome
    from simulator.real.settle import Signals
    from simulator.real.storage import GivenStorage
    from simulator.report.words import Reporter

HOSTS: Final = 5
KILLS: Final = 2
PAUSES: Final = 2
PAUSE_EVERY: Final = 120.0
"""Seconds of a storm for each further pause."""
PROMISE: Final = "Never two inside one lock, no message lost, and each lock of a killed host is taken over in time."
_APP: Final = Path(__file__).with_name("storm_app.py")
_OVERRIDES: Final = ("azurefunctionsjobhost__", "azurefunctionswebhost__", "singleton_")
"""How settings begin that would lead the hosts elsewhere."""
DIED: Final = "the storage did not answer any more at the end of the storm"


@contextmanager
def storm_app(container: str) -> Iterator[Path]:
    """Lay the app of the storm out in a folder of its own, with its locks in this container."""
    with tempfile.TemporaryDirectory(prefix="singleton-pilot-") as folder:
        shutil.copy(_APP, Path(folder) / "function_app.py")
        host = {
            "version": "2.0",
            "extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"},
            "singleton": {"container": container, "lockAcquisitionPollingInterval": "00:00:01"},
        }
        (Path(folder) / "host.json").write_text(json.dumps(host), "utf-8")
        values = {"Bus": "Endpoint=sb://no-such-bus.invalid/"}  # the broker of the run is asked in its place
        (Path(folder) / "local.settings.json").write_text(json.dumps({"Values": values}), "utf-8")
        yield Path(folder)


def storm(
    storage: GivenStorage,
    container: str,
    reporter: Reporter,
    signals: Signals,
    *,
    seconds: float,
    seed: int,
    hosts: int = HOSTS,
) -> tuple[CheckResult, RunOutcome | None]:
    """Run the hosts, kill and pause some, and judge. What the run could not show is unknown."""
    for name in [name for name in os.environ if normalised(name).startswith(_OVERRIDES)]:
        del os.environ[name]  # of this process, whose environment the hosts get
    kills = min(KILLS, hosts - 2)
    pauses = 0 if os.name == "nt" else min(PAUSES, hosts - 2) + int(seconds // PAUSE_EVERY)
    with storm_app(container) as app:
        scenario = Scenario(app=app, hosts=hosts, kill=kills, pause=pauses, duration=seconds, seed=seed)
        try:
            outcome = run(scenario, reporter, signals, storage)
        except RunTrouble as error:
            return _unknown(f"the storm could not be run: {error}"), None
    verdict = outcome.verdict
    if verdict is None:
        return _unknown("interrupted before the hosts were ready"), outcome
    broken = [violation(text) for text in verdict.violations]
    unseen = [unproven(text) for text in verdict.reasons if text not in verdict.violations]
    looked_at = {
        "hosts": hosts,
        "guarded bodies": verdict.sections,
        "locks": verdict.locks,
        "kills": verdict.kills,
        "pauses": verdict.pauses,
        "messages": verdict.messages.sent,
    }
    return CheckResult(name="storm", promise=PROMISE, looked_at=looked_at, findings=(*broken, *unseen)), outcome


def without_storage(part: CheckResult, outcome: RunOutcome) -> tuple[CheckResult, RunOutcome | None]:
    """Return what a storm shows whose storage died in the midst: two bodies at once, and tokens; no wait, no loss."""
    sure = [each for each in (outcome.verdict.checks if outcome.verdict else ()) if each.name in ("overlaps", "tokens")]
    if any(finding.kind == "violation" for each in sure for finding in each.findings):
        return part, outcome
    why = unproven(f"{DIED}: two bodies were never inside one lock at once; how long locks took is not judged")
    return replace(part, findings=(why,)), None


def _unknown(why: str) -> CheckResult:
    return CheckResult(name="storm", promise=PROMISE, looked_at={}, findings=(unproven(why),))
