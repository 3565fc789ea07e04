"""The storage account of a run: the fleet fills queues, looks into queues, and leaves the account as before."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from simulator.history.slowness import STORAGE
from simulator.host.triggers.queue import body_digest, decode, encode
from simulator.program import HOST
from simulator.work.scenario import ScenarioError
from singleton.base.errors import ConfigurationError
from singleton.defer.trigger_queue import poison_queue
from singleton.settings.connection import development_storage, parse_connection_string, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from azure.storage.queue import QueueServiceClient

    from simulator.work.apps import App

PATIENCE: Final = 10
PEEK: Final = 32
TRIES: Final = 3
PAUSE: Final = 0.3
GRACE: Final = 2.0
_EMULATOR: Final = "devstoreaccount1"


class StorageTrouble(Exception):
    """The storage does not do what the run needs; the message says what, and what to do."""


def checked_storage(text: str, *, cloud: bool) -> str:
    """Return the user's connection string, complete and checked.

    Raises:
        ScenarioError: the string is malformed, or names an account in the cloud although `cloud` is False.
    """
    try:
        full = development_storage(text.strip(), "--storage")
        storage = parse_connection_string(full, "--storage")
    except ConfigurationError as error:
        raise ScenarioError(str(error)) from error
    host = urlsplit(storage.endpoint).hostname or ""
    emulated = f"AccountName={_EMULATOR}" in storage.text
    if not (cloud or emulated or host in {"localhost", "::1"} or host.startswith("127.")):
        raise ScenarioError(
            f"--storage: {host} is not on this machine, and the run would fill and empty the app's queues there. "
            "Use Azurite; or, if that account is for such tests, add --allow-cloud"
        )
    return storage.text


@dataclass(frozen=True, slots=True)
class GivenStorage:
    """An account that the caller cares for, for an app without queues.

    ``settings``: of a connection to it, by what follows the connection's name; ``endpoint``: the URL of its blobs.
    """

    settings: Mapping[str, str] = field(repr=False)
    endpoint: str


class Storage:
    """The queues of one account, for one app."""

    def __init__(self, connection_string: str, app: App) -> None:
        self._connection_string = connection_string
        self._app = app
        self._clients: dict[str, Any] = {}
        self._blobs: dict[str, Any] = {}

    @cached_property
    def _service(self) -> QueueServiceClient:
        # Half a second of imports; the fleet starts meanwhile.
        from azure.storage.queue import QueueServiceClient

        # The SDK's own retries wait for 15 seconds and more.
        limits: dict[str, Any] = {"connection_timeout": PATIENCE, "read_timeout": PATIENCE, "retry_total": 0}
        return QueueServiceClient.from_connection_string(self._connection_string, **limits)

    def prepare(self) -> None:
        """Create the app's queues.

        Raises:
            StorageTrouble: the account can't be used, or a queue has messages, which the run would process.
        """
        for queue in self._app.queues:
            self._ask(f"create the queue {queue!r}", self._client(queue).create_queue, fine=("QueueAlreadyExists",))
            if waiting := self._count(queue):
                raise StorageTrouble(
                    f"the queue {queue!r} has {waiting} messages, which the fake hosts would process: "
                    "empty it, or leave --storage out, so that an Azurite is started for the run"
                )

    def send(self, queue: str, body: str) -> str:
        """Put a message into a queue and return its id.

        Raises:
            StorageTrouble: the message can't be sent.
        """
        text = encode(body.encode(), self._app.encoding)
        sent = self._ask(f"send a message to {queue!r}", lambda: self._client(queue).send_message(text))
        return str(sent.id)

    def left(self, queue: str) -> tuple[list[str], int]:
        """Return the ids of the messages that can be received (at most 32), and how many more there are."""
        ids = [name for name, _ in self._peek(queue)]
        total = self._count(queue)
        return ids, max(total - len(ids), 0)

    def poison(self, queue: str) -> list[str] | None:
        """Return the digests of the bodies in the queue's poison queue; None: it has none, or more than can be seen."""
        name = poison_queue(queue)
        if name is None or self._count(name) > PEEK:
            return None
        digests = []
        for _, text in self._peek(name):
            with suppress(ValueError):  # moved as it came: nobody could read it
                digests.append(body_digest(decode(text, self._app.encoding)))
        return digests

    def queued(self) -> int:
        """Return how many messages are in the app's queues, also those that are being processed."""
        return sum(self._count(queue) for queue in self._app.queues)

    def is_leased(self, blob: str) -> bool:
        """Tell whether somebody has the lease of a lock's blob."""
        ask = self._blob(blob).get_blob_properties
        found = self._ask(f"look at the lock {blob!r}", ask, fine=("BlobNotFound", "ContainerNotFound"))
        return found is not None and found.lease.state == "leased"

    def end_lease(self, blob: str, *, delete: bool) -> None:
        """Break the lease of a lock's blob at once, as an operator, and delete the blob if nobody is quicker."""
        from azure.storage.blob import BlobLeaseClient

        client = self._blob(blob)
        breaking = partial(BlobLeaseClient(client).break_lease, lease_break_period=0)
        self._ask(f"break the lease of {blob!r}", breaking, fine=("BlobNotFound", "LeaseNotPresentWithLeaseOperation"))
        if delete:
            fine = ("BlobNotFound", "LeaseIdMissing")  # gone already, or acquired again
            self._ask(f"delete the lock {blob!r}", client.delete_blob, fine=fine)

    def _blob(self, name: str) -> Any:
        from azure.storage.blob import BlobClient

        if name not in self._blobs:
            self._blobs[name] = BlobClient.from_connection_string(
                self._connection_string, self._app.container, name, retry_total=0, connection_timeout=PATIENCE
            )
        return self._blobs[name]

    def clean(self, locks: str) -> None:
        """Remove the run from an account that stays: messages, and blobs with names that begin with ``locks``."""
        from azure.storage.blob import BlobServiceClient

        for queue in self._app.queues:
            self._ask(f"clear the queue {queue!r}", self._client(queue).clear_messages)
        with BlobServiceClient.from_connection_string(self._connection_string, retry_total=0) as blobs:
            container = blobs.get_container_client(self._app.container)
            if self._ask("look for the locks' container", container.exists):
                for name in container.list_blob_names(name_starts_with=locks):
                    delete = partial(container.delete_blob, name)
                    # Gone already, or a killed host's lease still runs.
                    self._ask("delete a lock's blob", delete, fine=("BlobNotFound", "LeaseIdMissing"))

    def close(self) -> None:
        """Close all connections."""
        for client in (*self._clients.values(), *self._blobs.values()):
            client.close()

    def _count(self, queue: str) -> int:
        properties = self._look(queue, self._client(queue).get_queue_properties)
        return int(properties.approximate_message_count or 0) if properties else 0

    def _peek(self, queue: str) -> list[tuple[str, str]]:
        """Return the ids and texts of the first messages."""
        peek = partial(self._client(queue).peek_messages, max_messages=PEEK)
        return [(str(message.id), str(message.content)) for message in self._look(queue, peek) or ()]

    def _look(self, queue: str, request: Callable[[], Any]) -> Any:
        return self._ask(f"look into the queue {queue!r}", request, fine=("QueueNotFound",))

    def _client(self, queue: str) -> Any:
        if queue not in self._clients:
            self._clients[queue] = self._service.get_queue_client(queue)
        return self._clients[queue]

    def _ask(self, what: str, request: Callable[[], Any], *, fine: tuple[str, ...] = ()) -> Any:
        """Make a request, again if no answer came; return None if the service refuses it with a code of `fine`."""
        from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError

        for left in reversed(range(TRIES)):
            try:
                return request()
            except (AzureError, ValueError) as error:
                code = getattr(error, "error_code", None)
                if code in fine:
                    return None
                if left and isinstance(error, ServiceRequestError | ServiceResponseError):
                    time.sleep(PAUSE)
                    continue
                why = redact(" ".join(str(getattr(error, "message", error)).split())[:200])
                hint = "; is it running?" if isinstance(error, ServiceRequestError) else ""
                raise StorageTrouble(
                    f"the storage did not {what}: {code or type(error).__name__}: {why}{hint}"
                ) from error
        raise AssertionError(what)


class StorageMeasure:
    """The process that measures how slow the storage of a run is (`simulator.host.storage_measure`)."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self._command = [*HOST, "--measure", endpoint, str(folder / f"{STORAGE}.jsonl")]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process. The end of the run's process is its end, too."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def stop(self) -> None:
        """End the process; perhaps for the second time."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
