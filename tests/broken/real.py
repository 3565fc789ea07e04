"""Broken locks and right apps in real processes: each app gets a folder, and ``singleton-sim`` runs it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.broken.breaking import Forever
from tests.broken.locks import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
APPS: Final = Path(__file__).parent / "apps"
_OPTIONS: Final = {
    "": "--kill 1",
    "longest": "",
    "dozes": "--duration 25",
    "throttled": "",
    "lossy": "--duration 20",
    "heeds": "--duration 20",
    "blocks": "",
    "refuses": "",
    "sets": "",
    "renames": "",
    "regions": "--site north --site south --kill 1",
    "many": "",
    "layouts": "--same-app --kill 1",
    "retries": "--same-app",
    "keeps": "--kill 2 --duration 20",
    "hurried": "--faults error,throttle,partition --duration 30",
    "again": "--pause 2 --duration 25",
    "buses": "--faults error,throttle,break,pause,kill --duration 25",
    "expiries": "",
    "lines": "",
    "states": "--faults break --fault-every 2 --duration 25",
    "blocks_lost": "--faults break --fault-every 2 --duration 25",
    "patient": "--pause 1",
    "payloads": "--duration 25",
    "stubborn": "--pause 1",
}
"""Options of ``singleton-sim`` for an app; else ``--kill 1 --pause 1``."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A lock and an app, and words of the violation; none: it must not be accused.

    ``right``: the lock is not broken, but the app is set up wrongly.
    """

    name: str
    app: str
    options: str
    says: str = ""
    right: bool = False

    def met_by(self, told: Told) -> bool:
        """Tell whether this is what must be said."""
        return (
            any(self.says in text for text in told.violations)
            if self.says
            else told.code in (0, 1) and not told.violations
        )


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a run said: the command's exit code, and its verdict."""

    code: int
    words: str
    violations: tuple[str, ...]


def cases() -> Iterator[Case]:
    """Yield what there is to run."""
    for lock in BROKEN.values():
        yield Case(name=lock.name, app=lock.app, options=lock.options or _options(lock.app), says=lock.says)
    for app in ("", *sorted(path.stem for path in APPS.glob("*.py"))):
        yield Case(name=f"app-{app or 'sample'}", app=app, options=_options(app))
    yield Case(name="sample-all-that-strikes", app="", options="--kill 1 --pause 1")
    yield Case(name="sample-one-app", app="", options="--kill 1 --pause 1 --same-app")
    yield Case(
        name="sites-with-ids-of-their-own",
        app="",
        options="--site north --site south",
        says="between apps:",
        right=True,
    )
    yield Case(name="nested-all-that-strikes", app="nested", options="--kill 1 --pause 1")


def _options(app: str) -> str:
    return _OPTIONS.get(app, "--kill 1")


def told(case: Case, *, seed: int = 1, duration: int = 12) -> Told:
    """Run a case, and return what is told of it."""
    with tempfile.TemporaryDirectory(prefix="broken-") as folder:
        _make(Path(folder), case)
        options = ["--seed", str(seed), "--duration", str(duration), "--json", *shlex.split(case.options)]
        if (own := APPS / f"{case.app}.jsonl").exists():
            options += ["--messages", str(own)]
        if (plan := APPS / f"{case.app}.faults.json").exists():
            options += ["--fault-plan", str(plan)]
        done = subprocess.run(
            [sys.executable, "-m", "simulator.cli", "--hosts", "3", "--app", folder, *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1):
        return Told(code=done.returncode, words=done.stderr.strip()[-600:], violations=())
    verdict = json.loads(done.stdout)
    reasons = tuple(verdict["reasons"])
    words = f"{verdict['verdict']}: {' | '.join((*reasons, *verdict['untried']))}"
    return Told(code=done.returncode, words=words, violations=reasons if verdict["verdict"] == "violated" else ())


def _make(folder: Path, case: Case) -> None:
    """Write the app: broken by its first line, if it is."""
    source = APPS / f"{case.app}.py" if case.app else ROOT / "function_app.py"
    breaking = (
        f"import tests.broken.real; tests.broken.real.break_by({case.name!r})\n" if case.says and not case.right else ""
    )
    (folder / "function_app.py").write_text(
        breaking + source.read_text("utf-8").replace("from __future__", "#"), "utf-8"
    )
    own = APPS / f"{case.app}.host.json"
    (folder / "host.json").write_text((own if own.exists() else ROOT / "host.json").read_text("utf-8"), "utf-8")
    settings = json.loads((ROOT / "local.settings.example.json").read_text("utf-8"))
    settings["Values"]["AzureWebJobsServiceBus"] = "Endpoint=sb://none/"
    (folder / "local.settings.json").write_text(json.dumps(settings), "utf-8")


def break_by(name: str) -> None:
    """Break the lock of this process."""
    BROKEN[name].breaks(Forever())
