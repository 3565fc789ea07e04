"""Turn the host's values into the function's arguments, by the worker's own converters.

``azure.functions`` brings the converters; plain text and bytes go through the worker's "generic" binding, whose few
rules are repeated here.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.indexing import binding_class
from simulator.host.triggers.bindingdata import BINARY, properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulator.host.app.model import Parameter
    from simulator.host.triggers.queues import Message

_EARLIEST: Final = "0001-01-01T00:00:00+00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """What the host remembers of a timer: times in seconds since the epoch, 0 for "never"."""

    last: float = 0.0
    next: float = 0.0
    last_updated: float = 0.0

    def to_json(self) -> dict[str, str]:
        """Return the form in which it is stored and shown to the function (H-60)."""
        return {"Last": _iso(self.last), "Next": _iso(self.next), "LastUpdated": _iso(self.last_updated)}

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> ScheduleStatus:
        """Read the stored form."""
        return cls(last=_epoch(raw["Last"]), next=_epoch(raw["Next"]), last_updated=_epoch(raw["LastUpdated"]))


class Out:
    """The object behind a ``func.Out`` parameter."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: Any) -> None:
        """Set the output's value."""
        self._value = val

    def get(self) -> Any:
        """Return the value that was set last, or None."""
        return self._value


def queue_input(parameter: Parameter, message: Message) -> Any:
    """Return the trigger's value: a ``QueueMessage``, or only the body if the function takes text or bytes.

    Raises:
        UnicodeDecodeError: the body is no UTF-8, and the binding does not ask for binary data (H-81).
    """
    binary = parameter.data_type in BINARY
    body = message.body if binary else message.body.decode()
    if parameter.converter == "generic":
        # As in the worker, the annotation does not decide: bytes come only with data_type=BINARY.
        return body
    dates = {
        "ExpirationTime": message.expires,
        "InsertionTime": message.inserted,
        "NextVisibleTime": message.next_visible,
    }
    metadata = {
        "Id": datum(message.id, "string"),
        "PopReceipt": datum(message.pop_receipt, "string"),
        "DequeueCount": datum(json.dumps(message.dequeue_count), "json"),
        **{name: datum(json.dumps(_utc(date)), "json") for name, date in dates.items() if date is not None},
    }
    replaced = {} if isinstance(body, bytes) else replaced_by(body, metadata)
    try:
        return binding_class(parameter.converter).decode(
            datum(body, "bytes" if binary else "string"), trigger_metadata=metadata | replaced
        )
    except ValueError as error:
        raise ValueError(f"the body's own {', '.join(replaced)} took the place of the message's: {error}") from error


def replaced_by(body: str, metadata: Iterable[str]) -> dict[str, Any]:
    """Return what a body puts in place of its message's metadata: its top-level properties, in any case (H-80)."""
    theirs = {name.casefold(): value for name, value in properties(body).items()}
    replaced = {name: theirs[name.casefold()] for name in metadata if name.casefold() in theirs}
    return {
        name: datum(json.dumps(value), "json") if isinstance(value, dict) else datum(value, "string")
        for name, value in replaced.items()
    }


def timer_input(parameter: Parameter, status: ScheduleStatus | None, *, past_due: bool, adjusts: bool = True) -> Any:
    """Return the trigger's value: a ``TimerRequest``, or its JSON if the function takes text.

    ``adjusts`` tells whether the schedule follows daylight saving: cron does, a time span does not (H-92).
    """
    info = json.dumps(
        {
            "Schedule": {"AdjustForDST": adjusts},
            "ScheduleStatus": None if status is None else status.to_json(),
            "IsPastDue": past_due,
        }
    )
    if parameter.converter == "generic":
        return info
    return binding_class(parameter.converter).decode(datum(info, "json"), trigger_metadata=None)


def datum(value: Any, kind: str) -> Any:
    """Return data as the protocol carries it from the host to the worker."""
    meta: Any = importlib.import_module("azure.functions.meta")
    return meta.Datum(value, kind)


def _utc(date: datetime) -> str:
    return date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def _iso(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat() if instant else _EARLIEST


def _epoch(text: str) -> float:
    date = datetime.fromisoformat(text)
    return 0.0 if date.year == 1 else date.timestamp()
