"""The hosts as processes of the operating system: started, looked after, suspended, killed, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from simulator.history.journal import Tail
from simulator.program import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import psutil


STOPPED_WITHIN: Final = 2.0
TAIL: Final = 4096
LINES: Final = 3
TEMPORARY: Final = "temporary"
_WINDOWS: Final = os.name == "nt"


class Host:
    """One fake Functions host with its workers, in a process group of its own: no Ctrl-C of the terminal reaches it."""

    program = HOST

    def __init__(self, name: str, folder: Path, config: dict[str, Any]) -> None:
        """Prepare the host's files in `folder`; `config` is what `program` reads."""
        self.name = name
        self.journal = folder / f"{name}.jsonl"
        self.log = folder / f"{name}.jsonl.log"
        self.tail = Tail(self.journal)
        self.reaped = False  # its end is expected
        self._config = folder / f"{name}.config.json"
        self._config.write_text(json.dumps({**config, "name": name, "journal": str(self.journal)}), "utf-8")
        self._config.chmod(0o600)  # it contains the storage's key
        # The hosts of a run share a temporary folder, and no other run does: what apps leave there ends with the run.
        self._temporary = folder / TEMPORARY
        self._temporary.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._swept = False

    def start(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._temporary))},
                # No session of its own: when the fleet is killed, the kernel wakes and ends a group that stands still.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process's id; 0 if it was never started."""
        return self._process.pid if self._process else 0

    def exit_code(self) -> int | None:
        """Return how the process ended, or None while it runs (or was never started)."""
        code = self._process.poll() if self._process else None
        if code is not None:
            self._sweep()
        return code

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self.exit_code() is None

    def suspend(self) -> bool:
        """Stop host and workers at once, and return when they stand still; False if that can't be done."""
        import psutil  # only a run of hosts needs psutil, and has asked for it before (`simulator.real.run`)

        still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        try:
            self._signal("SIGSTOP", psutil.Process.suspend)
            deadline = time.monotonic() + STOPPED_WITHIN
            while not _WINDOWS and not all(process.status() in still for process in self._processes()):
                if time.monotonic() > deadline:
                    self.resume()
                    return False
                time.sleep(0.0001)
        except (psutil.Error, OSError):  # such as a process that ended meanwhile
            self.resume()
            return False
        return True

    def resume(self) -> None:
        """Let a suspended host and its workers go on."""
        import psutil

        with contextlib.suppress(psutil.Error, OSError):
            self._signal("SIGCONT", psutil.Process.resume)

    def _signal(self, name: str, otherwise: Callable[[psutil.Process], None]) -> None:
        """Send a signal to host and workers at one moment. Without signals, do it to one after the other."""
        if _WINDOWS:
            for process in self._processes():
                otherwise(process)
        elif self.running:
            os.killpg(self.pid, getattr(signal, name))

    def _processes(self) -> list[psutil.Process]:
        import psutil

        host = psutil.Process(self.pid)
        return [host, *host.children()]

    def kill(self) -> None:
        """End the process and all that it started, at once."""
        if self._process is None or not self.running:
            return
        self.reaped = True
        if _WINDOWS:
            self._process.kill()
        self._sweep()
        self._process.wait()

    def _sweep(self) -> None:
        """End all that is in the host's session, once: the host, its workers, and what the app has started."""
        if not (_WINDOWS or self._swept):
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Ask the process to finish its work, and end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.terminate()

    def last_words(self) -> str:
        """Return the last lines of the process's own output."""
        text = self.log.read_bytes()[-TAIL:].decode("utf-8", "replace") if self.log.exists() else ""
        return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-LINES:])


def stop_all(hosts: Sequence[Host], grace: float, *, hurry: Any = lambda: False) -> list[Host]:
    """Stop all hosts, gracefully at first; return those that had to be killed.

    Args:
        hosts: the hosts.
        grace: seconds that they may take to finish their work.
        hurry: asked now and then; True ends the wait.
    """
    deadline = time.monotonic() + grace
    for host in hosts:
        host.ask_to_stop()
    while any(host.running for host in hosts) and time.monotonic() < deadline and not hurry():
        time.sleep(0.02)
    forced = [host for host in hosts if host.running]
    for host in forced:
        host.kill()
    return forced
