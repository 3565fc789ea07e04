"""Turn the host's values into the function's arguments, by the worker's own converters.

``azure.functions`` has the converters. Plain text and bytes go through the worker's "generic" binding, and this module
has the few rules of that binding. ``{names}`` in an output's queue name come from the message's data, the properties of
a JSON body, the path of a blob, and built-ins.
"""

from __future__ import annotations

import importlib
import json
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import SettingsError
from simulator.host.app.function_index import binding_class
from simulator.host.triggers.jsonnet import UNDEFINED, plain, read
from simulator.host.triggers.queue import QueueMessage
from singleton.base.errors import SingletonError
from singleton.base.words import listed, quoted
from singleton.dotnet.formats import formatted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simulator.host.app.app_model import Parameter


BINARY: Final = (2, 3)
"""Data types of a trigger that gets bytes."""
_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_SHOWN_DATE: Final = "MM/dd/yyyy HH:mm:ss zzz"


def binding_data(trigger: Parameter, cause: object) -> dict[str, object]:
    """Return the binding data of the cause of an invocation: of a queue message (H-47); a timer has none.

    Properties of a JSON object in its body replace the message's value of the same name, in upper or lower case. Null
    and lists replace nothing, and nothing is replaced if the trigger's data type is binary (H-80).
    """
    if not isinstance(cause, QueueMessage):
        return {}
    text = cause.body.decode("utf-8", "replace")
    data: dict[str, object] = {
        "QueueTrigger": text,
        "Id": cause.id,
        "PopReceipt": cause.pop_receipt,
        "DequeueCount": str(cause.dequeue_count),
        **cause.dates,
    }
    for name, value in ({} if trigger.data_type in BINARY else properties(text)).items():
        spelt = next((known for known in data if known.casefold() == name.casefold()), name)
        data[spelt] = value
    return data


def bound(text: str, data: Mapping[str, object], where: str) -> str:
    """Replace each ``{name}``, ``{name.of.property}`` and ``{name:format}`` by its value.

    Raises:
        SettingsError: the data lacks a value, or a value lacks the format.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        path, _, pattern = match[1].partition(":")
        found: Any = {**_built_in(), **data}
        for name in path.split("."):
            found = _looked_up(found, name)
            if found is None:
                raise SettingsError(
                    f"{where}: there is no value for {{{path}}} of {quoted(text)}; the trigger gives "
                    f"{listed(data) or 'none'}"
                )
        if isinstance(found, datetime):
            if pattern and _looked_up(_built_in(), path.split(".")[0]) is None:
                raise SettingsError(f"{where}: {{{match[1]}}}: the host formats no date that the trigger brings")
            pattern = pattern or _SHOWN_DATE
        elif not pattern:
            return plain(found)
        try:
            return formatted(found, pattern, f"{where}: {{{match[1]}}}")
        except SingletonError as error:
            raise SettingsError(str(error)) from error

    return _PIECE.sub(value, text)


def properties(text: str) -> dict[str, Any]:
    """Return a body's additions to the binding data, or replacements: top-level properties, as texts or objects."""
    try:
        found = read(text, dates=True)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    shown = {name: value if isinstance(value, dict) else plain(value) for name, value in found.items()}
    absent = {name for name, value in found.items() if value is None or value is UNDEFINED or isinstance(value, list)}
    return {name: value for name, value in shown.items() if name not in absent}


def _looked_up(found: Any, name: str) -> Any:
    if not isinstance(found, dict):
        return None
    return next((value for known, value in found.items() if known.casefold() == name.casefold()), None)


def _built_in() -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "rand-guid": str(uuid.uuid4()),
        "DateTime": now,
        "sys": {"RandGuid": str(uuid.uuid4()), "UtcNow": now},
    }


_NAME: Final = re.compile(r"\{([^{}]*)\}")


def path_names(pattern: str, path: str) -> dict[str, str]:
    """Return the values of a blob trigger's ``{names}`` for the path of a blob."""
    found = _match(pattern, path)
    return {} if found is None else dict(zip(_NAME.findall(pattern), found.groups(), strict=True))


def path_fits(pattern: str, path: str) -> bool:
    """Tell whether a blob with this path triggers the function; a pattern may be a container alone."""
    return path.startswith(f"{pattern}/") if "/" not in pattern else _match(pattern, path) is not None


def made_path(pattern: str, number: int) -> str:
    """Return a path that fits."""
    return _NAME.sub(f"blob-{number}", pattern if "/" in pattern else f"{pattern}/{{name}}")


def _match(pattern: str, path: str) -> re.Match[str] | None:
    pieces = _NAME.split(pattern)[::2]
    container = pattern.partition("/")[0]
    matcher = re.escape(pieces[0])
    for at, piece in enumerate(pieces[1:]):
        in_container = len("".join(pieces[: at + 1])) < len(container)
        matcher += ("([^/]*)" if in_container else "(.*)") + re.escape(piece)
    return re.fullmatch(matcher, path, re.DOTALL)


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


def queue_input(parameter: Parameter, message: QueueMessage) -> Any:
    """Return the trigger's value: a ``QueueMessage``, or only the body if the function takes text or bytes.

    Raises:
        UnicodeDecodeError: the body is no UTF-8, and the binding does not ask for binary data (H-81).
    """
    binary = parameter.data_type in BINARY
    body = message.body if binary else message.body.decode()
    if parameter.converter == "generic":
        # As in the worker, the annotation does not decide: bytes come only with data_type=BINARY.
        return body
    metadata = {
        "Id": datum(message.id, "string"),
        "PopReceipt": datum(message.pop_receipt, "string"),
        "DequeueCount": datum(json.dumps(message.dequeue_count), "json"),
        **{
            name: datum(json.dumps(f"{date.astimezone(UTC):%Y-%m-%dT%H:%M:%S}+00:00"), "json")
            for name, date in sorted(message.dates.items())
        },
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
    told = {
        "Schedule": {"AdjustForDST": adjusts},
        "ScheduleStatus": None if status is None else status.to_json(),
        "IsPastDue": past_due,
    }
    info = json.dumps(told, separators=(",", ":"))
    if parameter.converter == "generic":
        return info
    return binding_class(parameter.converter).decode(datum(info, "json"), trigger_metadata=None)


def datum(value: Any, kind: str | None) -> Any:
    """Return data as the protocol carries it from the host to the worker."""
    meta: Any = importlib.import_module("azure.functions.meta")
    return meta.Datum(value, kind)


def _iso(instant: float) -> str:
    whole, ticks = divmod(round(instant * 10_000_000), 10_000_000)  # .NET's, of which it writes no zeros at the end
    fraction = f".{ticks:07}".rstrip("0") if ticks else ""
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}{fraction}+00:00" if instant else _EARLIEST


def _epoch(text: str) -> float:
    date = datetime.fromisoformat(text)
    return 0.0 if date.year == 1 else date.timestamp()
