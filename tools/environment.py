"""Make the project's virtual environment and keep it up to date: `python tools/environment.py FOLDER EXTRA...`.

Installs the project (editable) with the extras that are asked for, at the versions of constraints.txt, and does
nothing when that was done before for the same pyproject.toml and constraints.txt. The simulator is a distribution of
its own, which no registry has at the version of this checkout: the extras `check` and `sim` get the simulator from
here. Runs on the standard library alone, keeps pip quiet, and shows that it is alive: one line on a terminal, a line
every few seconds elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
SIMULATOR = ROOT / "distributions" / "sim"
# What an extra brings along, so that `make demo` after `make test` installs nothing.
INCLUDES = {
    "sim": {"check"},
    "dask": {"check", "sim"},
    "docs": {"sql"},
    "test": {"check", "sim", "dask", "docs", "identity", "otel", "sql"},
    "dev": {"check", "sim", "dask", "docs", "identity", "otel", "sql", "test", "lint"},
}
# The editable install is built in the environment itself: one set of pinned versions, no second download.
BUILD = ("hatchling", "editables")
TAIL = 15


class Failed(Exception):
    """A step did not work; the message says what to do."""


class Progress:
    """One line on a terminal, or one every few seconds, with the seconds that went by."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self.start = time.monotonic()
        self.live = sys.stdout.isatty()
        self.every = 0.3 if self.live else 2.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._show()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.detail = ""
        self._show()
        if self.live:
            sys.stdout.write("\n")

    def _run(self) -> None:
        while not self._done.wait(self.every):
            self._show()

    def _show(self) -> None:
        line = f"{self.title}  {time.monotonic() - self.start:3.0f} s  {self.detail}".rstrip()
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"\r\033[K{line[:width]}" if self.live else f"{line}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Bring the environment in the folder `arguments[0]` up to date with the extras that follow."""
    folder, extras = Path(arguments[0]).absolute(), set(arguments[1:])
    with one_at_a_time(folder):
        stamp = folder / ".installed.json"
        # An environment that was moved has scripts that start the old one's interpreter.
        fingerprint, python = wanted(), f"{sys.version.split()[0]} of {sys.base_prefix} for {folder}"
        known = installed(stamp)
        fresh = known.get("python") != python or not usable(folder)
        have = set() if fresh else set(known["extras"])
        covered = included(have)
        if known.get("fingerprint") == fingerprint and extras <= covered:
            return 0
        try:
            if fresh:
                create(folder)
            stamp.unlink(missing_ok=True)
            install(folder, sorted(extras | have))
        except Failed as error:
            sys.stderr.write(f"{error}\n")
            return 3
        stamp.write_text(json.dumps({"fingerprint": fingerprint, "python": python, "extras": sorted(extras | have)}))
    return 0


def included(extras: set[str]) -> set[str]:
    """Return these extras and those that they bring along."""
    return extras.union(*(INCLUDES.get(extra, set()) for extra in extras))


def wanted() -> str:
    """Hash everything that the content of the environment follows from."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (ROOT / "pyproject.toml", SIMULATOR / "pyproject.toml", ROOT / "constraints.txt"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installed(stamp: Path) -> dict[str, Any]:
    """Read what the last run installed; empty when there was none or it was cut short."""
    try:
        content = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def usable(folder: Path) -> bool:
    """Tell whether the environment's interpreter starts: it doesn't once the Python it came from is gone."""
    try:
        return subprocess.run([python_of(folder), "-c", ""], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def python_of(folder: Path) -> Path:
    """Name the environment's interpreter."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def create(folder: Path) -> None:
    """Create the environment, without pip: that comes from whatever this Python has."""
    with Progress(f"Creating {folder.name} with Python {sys.version.split()[0]}"):
        try:
            venv.EnvBuilder(with_pip=False, clear=True, symlinks=os.name != "nt").create(folder)
        except OSError as error:
            raise Failed(f"The virtual environment {folder} can't be made: {error}.") from error


def pip_for(folder: Path) -> list[str]:
    """Find a pip that installs into the environment, or explain what to install.

    Debian's Python comes without ensurepip; its pip package does the same job from outside.
    """
    if importlib.util.find_spec("ensurepip"):
        command = [str(python_of(folder)), "-m", "ensurepip", "--default-pip"]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return [str(python_of(folder)), "-m", "pip"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--python", str(python_of(folder))]
    raise Failed(
        f"{sys.executable} has neither ensurepip nor pip, so nothing can be installed. Install them "
        "(Debian and Ubuntu: apt-get install python3-venv), or name another Python: make PYTHON=/path/to/python3.12 ..."
    )


def install(folder: Path, extras: Sequence[str]) -> None:
    """Install the dependencies, then the project itself."""
    count = sum(1 for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    title = f"Installing into {folder.name} ({', '.join(extras)}; at most {count} packages)"
    with Progress(title) as progress:
        pip = pip_for(folder)
        quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        pinned = ["--constraint", str(ROOT / "constraints.txt")]
        projects = [f"{ROOT}[{','.join(extras)}]"]
        if "check" in included(set(extras)):
            projects.append(str(SIMULATOR))
        editable = [argument for project in projects for argument in ("--editable", project)]
        run([*pip, "install", *quiet, *pinned, *BUILD], progress)
        run([*pip, "install", *quiet, *pinned, "--no-build-isolation", *editable], progress)


def run(command: Sequence[str], progress: Progress) -> None:
    """Run pip, turning its lines into the progress line; raise with their tail when it fails."""
    lines: list[str] = []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    )
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.append(line.rstrip())
            progress.detail = describe(lines[-1]) or progress.detail
    if process.wait():
        tail = "\n".join(f"    {line}" for line in lines[-TAIL:])
        raise Failed(f"\npip failed with exit code {process.returncode}; its last lines:\n{tail}")


def describe(line: str) -> str:
    """Shorten one of pip's lines to what is worth seeing."""
    words = line.split()
    match words:
        case ["Collecting", name, *_]:
            return f"fetching {name}"
        case ["Installing", "collected", *_]:
            return "unpacking"
        case ["Building" | "Preparing" | "Getting", *_]:
            return "building"
        case _:
            return ""


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock, so that two makes at once don't install into one folder."""
    if sys.platform == "win32":
        yield
        return
    import fcntl  # not on Windows

    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
