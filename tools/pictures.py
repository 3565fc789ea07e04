"""Draw the pictures of the README and of the site from real runs: `python -m tools.pictures` (takes twenty minutes).

The runs: the sample app on three hosts, one of them killed and one paused. The live view is drawn from the journals of
a short run, and the timeline by a browser from its report. A run of a quarter of an hour has the metrics that
`observe()` exported: workbook and dashboard are drawn from them. Each picture is made twice, for light and for dark
screens. It needs a browser and the packages `duckdb` and `duckdb-kql`. With `--metrics FOLDER` only workbook and
dashboard are drawn, from the files that an earlier run has exported.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME

from simulator.history.journal import read_journals
from simulator.report.board import Board
from simulator.report.terminal import view
from simulator.report.words import Progress
from tools.picture_of_metrics import EXPORTED, of_grafana, of_workbook, points

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = ROOT / "docs" / "_static"
SECONDS: Final = 45
OBSERVED: Final = 900
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OBSERVING: Final = f"""
import os
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics import export
from singleton import observe

_each = dict.fromkeys((Counter, Histogram), export.AggregationTemporality.DELTA)
_file = open(f"{{os.environ['METRICS']}}/{{os.getpid()}}.jsonl", "a", buffering=1)
_to = export.ConsoleMetricExporter(_file, lambda data: data.to_json(indent=None) + "\\n", preferred_temporality=_each)
observe(meter_provider=MeterProvider([export.PeriodicExportingMetricReader(_to, {EXPORTED * 1000})]))
"""
"""What the run adds to the sample app."""


def run(folder: Path, seconds: int) -> Path:
    """Let the sample app run; return the folder of its journals. Here are run.html and, in metrics, the metrics."""
    folder.mkdir()
    app, exported = folder / "app", folder / "metrics"
    app.mkdir()
    exported.mkdir()
    shutil.copyfile(ROOT / "host.json", app / "host.json")
    shutil.copyfile(ROOT / "local.settings.example.json", app / "local.settings.json")
    (app / "function_app.py").write_text((ROOT / "function_app.py").read_text("utf-8") + OBSERVING, "utf-8")
    command = [str(Path(sys.executable).with_name("singleton-sim")), "--app", str(app), "--keep", "--seed", "7"]
    command += ["--hosts", "3", "--kill", "1", "--pause", "1", "--duration", str(seconds)]
    command += ["--report", str(folder / "run.html")]
    given = {**os.environ, "METRICS": str(exported)}
    said = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=True).stdout
    return Path(next(line for line in said.splitlines() if "journals are in" in line).split(" are in ")[1])


def live_view(journals: Path, *, dark: bool) -> str:
    """Return the live view as it was a second after a lock of the killed host was taken over, as SVG."""
    board = Board()
    for record in read_journals(journals):
        board.take(record)
        if board.taken and record.t > board.taken[0][0] + 1:
            break
    now = board.history.end
    progress = Progress(phase="working", now=now, elapsed=now - board.history.start, duration=float(SECONDS))
    console = Console(record=True, width=100, file=io.StringIO(), color_system="truecolor")
    console.print(view(board, progress, 100, 34), "")
    theme = SVG_EXPORT_THEME if dark else DEFAULT_TERMINAL_THEME
    head, _, rest = CONSOLE_SVG_FORMAT.partition("@font-face")
    form = head + rest[rest.index(".{unique_id}-matrix") :]  # no fonts of another host
    return console.export_svg(title="singleton-sim --hosts 3 --kill 1 --pause 1", theme=theme, code_format=form)


def timeline(report: Path, picture: Path, *, dark: bool) -> None:
    """Let a browser draw the timeline of a report."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": 1100, "height": 800}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        page.goto(report.as_uri())
        page.wait_for_timeout(1000)
        page.locator("#lanes").screenshot(path=picture)
        browser.close()


def metrics(folder: Path) -> None:
    """Draw workbook and dashboard from what the processes of a run exported."""
    every = points(folder)
    for name, draw in (("workbook", of_workbook), ("grafana", of_grafana)):
        for ends in ("light", "dark"):
            (PICTURES / f"{name}-{ends}.svg").write_text(draw(every, dark=ends == "dark"), "utf-8")


def main(arguments: list[str]) -> int:
    """Run the app, and write the pictures."""
    if arguments[:1] == ["--metrics"]:
        metrics(Path(arguments[1]))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journals = run(folder / "short", SECONDS)
        for dark, ends in ((False, "light"), (True, "dark")):
            (PICTURES / f"live-{ends}.svg").write_text(live_view(journals, dark=dark), "utf-8")
            timeline(folder / "short" / "run.html", PICTURES / f"timeline-{ends}.png", dark=dark)
        shutil.rmtree(journals)
        shutil.rmtree(run(folder / "long", OBSERVED))
        metrics(folder / "long" / "metrics")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
