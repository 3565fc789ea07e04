"""One Azurite: the storage that the fake hosts share. It starts on free ports and leaves no trace.

    with Azurite() as azurite:
        client = BlobServiceClient.from_connection_string(azurite.connection_string)

It keeps everything in memory, so there is no folder to leave behind, unless it is given one. The system chooses the
ports, unless they are given, and Azurite says which it got: two runs can't collide. It is in a process group of its
own, so that Ctrl-C at the terminal ends our hosts first and the storage under them last, and it ends by itself when
this process does, even by SIGKILL.
"""

from __future__ import annotations

import re
import tempfile
import time
from typing import IO, TYPE_CHECKING, Self

from simulator.azurite.install import (
    ENTRY,
    HERE,
    AzuriteError,
    ensure_installed,
    read,
    start_node,
    stop_node,
    tail,
    version,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path

ACCOUNT = "devstoreaccount1"
# Not a secret: the key that every storage emulator has, published in Microsoft's documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SERVICES = ("Blob", "Queue", "Table")
READY_WITHIN = 60.0
# In memory it has nothing to save.
GRACE = 1.0
SAVING = 10.0
LAZY = ("--require", HERE / "lazy_telemetry.cjs")
IN_MEMORY = "--inMemoryPersistence"
FLAGS = (
    # The SDKs speak newer versions of the protocol than Azurite knows.
    "--skipApiVersionCheck",
    "--silent",
    "--disableTelemetry",
    # Longer than clients keep theirs, as the service: else a request may meet a connection that has just been closed.
    *(f"--{service.lower()}KeepAliveTimeout=60" for service in SERVICES),
)
LISTENING = re.compile(r"Azurite (\w+) service is successfully listening at http://[^\s:]+:(\d+)")


class Azurite:
    """A storage emulator from `start()` to `stop()`; a context manager."""

    def __init__(
        self,
        progress: Callable[[str], None] = lambda _: None,
        *,
        ports: Mapping[str, int] | None = None,
        data: Path | None = None,
    ) -> None:
        """Prepare one; nothing runs yet.

        Args:
            progress: gets a line now and then while `start` installs or waits.
            ports: by the names in `SERVICES`; 0, and a service that is not named: the system chooses.
            data: the folder of the stored data; None: the memory, and the data is gone at the end.
        """
        self._progress = progress
        self._chosen = dict.fromkeys(SERVICES, 0) | dict(ports or {})
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._ports: dict[str, int] = {}

    def start(self) -> None:
        """Install Azurite if need be, start it, and return when blobs, queues and tables answer.

        Raises:
            AzuriteError: it can't be installed, or it ended or stayed silent instead of listening.
        """
        if self._process is not None:
            raise AzuriteError("This Azurite is running already.")
        folder = ensure_installed(self._progress)
        # Unlinked from the start, so nobody must remove the file.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open until stop()
        try:
            # Node keeps what it has compiled: a sixth of the start.
            compiled = {"NODE_COMPILE_CACHE": str(folder / "node_modules" / ".cache" / "node")}
            self._process = start_node(
                *LAZY, folder / ENTRY, *self._flags(), cwd=folder, output=self._output, **compiled
            )
            self._wait()
        except AzuriteError as error:
            remedy = f"If it happens again, remove the folder {folder}: then Azurite is installed again."
            said = f"\nIts last lines:\n{tail(self._output)}" if self._process else ""
            self.stop()
            raise AzuriteError(f"{error}{said}\n{remedy}" if said else str(error)) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End Azurite and free the ports; contents in memory are gone. May be called at any time, and twice."""
        process, self._process = self._process, None
        output, self._output = self._output, None
        self._ports = {}
        if process is not None:
            stop_node(process, grace=SAVING if self._data else GRACE)
        if output is not None:
            output.close()

    @property
    def connection_string(self) -> str:
        """The connection string for blobs, queues and tables."""
        ports = {service: self._port(service) for service in SERVICES}
        endpoints = "".join(f"{name}Endpoint=http://127.0.0.1:{port}/{ACCOUNT};" for name, port in ports.items())
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};{endpoints}"

    @property
    def blob_port(self) -> int:
        """The port on which blobs are served."""
        return self._port("Blob")

    @property
    def queue_port(self) -> int:
        """The port on which queues are served."""
        return self._port("Queue")

    @property
    def table_port(self) -> int:
        """The port on which tables are served."""
        return self._port("Table")

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._running()[0].pid

    def check(self) -> None:
        """Check that Azurite still runs.

        Raises:
            AzuriteError: Azurite has ended; the message has the last lines of output.
        """
        process, output = self._running()
        if (code := process.poll()) is not None:
            raise AzuriteError(f"Azurite ended by itself (exit code {code}). Its last lines:\n{tail(output)}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _flags(self) -> list[str]:
        kept = [f"--location={self._data}"] if self._data else [IN_MEMORY]
        return [*kept, *FLAGS, *(f"--{service.lower()}Port={port}" for service, port in self._chosen.items())]

    def _port(self, service: str) -> int:
        self._running()
        return self._ports[service]

    def _running(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._process is None or self._output is None:
            raise AzuriteError("This Azurite is not running.")
        return self._process, self._output

    def _wait(self) -> None:
        """Wait until Azurite has printed its ports: the servers behind the ports then accept connections."""
        process, output = self._running()
        started = time.monotonic()
        reported = 0
        while len(self._ports) < len(SERVICES):
            ended = process.poll() is not None
            self._ports = {service: int(port) for service, port in LISTENING.findall(read(output))}
            seconds = time.monotonic() - started
            if ended:
                raise AzuriteError(f"Azurite {version()} ended at once (exit code {process.returncode}).")
            if seconds > READY_WITHIN:
                raise AzuriteError(f"Azurite {version()} was not ready after {READY_WITHIN:.0f} s.")
            if seconds >= reported:
                self._progress(f"Starting Azurite {version()}: {seconds:.0f} s")
                reported += 1
            time.sleep(0.02)
        self._progress(f"Azurite {version()} is ready ({time.monotonic() - started:.1f} s)")
