"""What becomes of the outputs of a function: queue messages are sent, everything else is noted once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from simulator.host.app.errors import HostError, SettingsError
from simulator.host.app.settings import resolve
from simulator.host.triggers.bindingdata import bound
from simulator.host.triggers.messages import HostQueues, encode, is_queue_name
from simulator.host.triggers.typed import OutputError
from simulator.host.triggers.written import written
from singleton.settings.connection import redact
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.history.journal import Write
    from simulator.host.app.model import Parameter
    from simulator.host.triggers.typed import Typed
    from singleton.defer.queueplace import Encoding

_log = logging.getLogger(__name__)


class Outputs:
    """Sends the outputs of the functions of one host."""

    def __init__(
        self,
        *,
        service: HostQueues,
        encoding: Encoding,
        settings: Mapping[str, str],
        write: Write,
    ) -> None:
        self._service = service
        self._encoding: Encoding = encoding
        self._settings = settings
        self._write = write
        self._noted: set[tuple[str, str]] = set()

    async def send(
        self,
        function: str,
        outputs: Iterable[tuple[Parameter, Typed]],
        data: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Send what a function gave back; ``data`` tells what the trigger gives for ``{names}`` in queues' names.

        One that can't be sent keeps none of the others from being sent.

        Raises:
            OutputError: the queue's name can't be resolved, it does not take it, or text that looks like JSON is none.
        """
        failure: OutputError | None = None
        for parameter, value in outputs:
            if parameter.binding.lower() != "queue":
                self._note(function, parameter)
                continue
            try:
                await self._send(function, parameter, value, data)
            except (ValueError, HostError, StoreFailure) as error:
                failure = failure or OutputError(f"output {parameter.name!r}: {redact(str(error))}")
        if failure is not None:
            raise failure

    async def _send(
        self, function: str, parameter: Parameter, value: Typed, data: Callable[[], Mapping[str, object]]
    ) -> None:
        queue = queue_name(parameter, self._settings, "its queue", data)
        for body in written(value):
            sent = await self._service.send(queue, encode(body, self._encoding))
            self._write("message_sent", queue=queue, id=sent, function=function)

    def _note(self, function: str, parameter: Parameter) -> None:
        if (function, parameter.name) not in self._noted:
            self._noted.add((function, parameter.name))
            message = f"output {parameter.name!r} ({parameter.binding}) is dropped: the simulator writes queues only"
            self._write("note", function=function, message=message)
            _log.warning("%s: %s", function, message)


def queue_name(
    parameter: Parameter,
    settings: Mapping[str, str],
    where: str,
    data: Callable[[], Mapping[str, object]] | None = None,
) -> str:
    """Return the name of the queue that a binding means, settings resolved, and ``{names}`` of an output by ``data``.

    Raises:
        SettingsError: a setting or value is missing, or the name is none that a queue may have.
    """
    name = resolve(str(parameter.settings.get("queueName") or ""), settings, where)
    if data is not None and ("{" in name or "}" in name):
        name = bound(name, data(), where)
    # As the storage extension does: queue names are written in lower case.
    name = name.lower()
    if not is_queue_name(name):
        raise SettingsError(
            f"{where}: {name!r} is no queue name: 3 to 63 letters, digits and dashes, no dash double or at an edge"
        )
    return name
