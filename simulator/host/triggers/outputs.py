"""What happens to the outputs of a function: messages go to queues, everything else is noted once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from simulator.host.app.errors import HostError, SettingsError
from simulator.host.app.settings import resolve
from simulator.host.triggers.bindingdata import bound
from simulator.host.triggers.messages import encode, is_queue_name
from simulator.host.triggers.written import written
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.history.journal import Write
    from simulator.host.app.model import Parameter
    from simulator.host.triggers.typed import Typed
    from singleton.defer.queue_account import Encoding

_log = logging.getLogger(__name__)


class Outputs:
    """Makes messages of what the functions of one host return."""

    def __init__(self, *, encoding: Encoding, settings: Mapping[str, str], write: Write) -> None:
        self._encoding: Encoding = encoding
        self._settings = settings
        self._write = write
        self._noted: set[tuple[str, str]] = set()

    def messages(
        self, function: str, outputs: Iterable[tuple[Parameter, Typed]], data: Callable[[], Mapping[str, object]] = dict
    ) -> tuple[tuple[tuple[str, str], ...], str | None]:
        """Return the messages to send, each as its queue's name and its text, and an error or None.

        ``data`` has the trigger's values for ``{names}`` in queues' names. An output that can't be sent fails the
        invocation, but the others are sent.
        """
        messages: list[tuple[str, str]] = []
        failure: str | None = None
        for parameter, value in outputs:
            if parameter.binding.lower() != "queue":
                self._note(function, parameter)
                continue
            try:
                queue = queue_name(parameter, self._settings, "its queue", data)
                messages += [(queue, encode(body, self._encoding)) for body in written(value)]
            except (ValueError, HostError) as error:
                failure = failure or f"OutputError: output {parameter.name!r}: {redact(str(error))}"
        return tuple(messages), failure

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
    """Return the queue's name of a binding, with its settings, and with the ``{names}`` of an output from ``data``.

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
