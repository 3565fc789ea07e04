"""The values of ``{names}`` in an output's queue name: the message's own data, its body's properties, built-ins.

The path of a blob trigger: which blobs fit it, and the values of its ``{names}``.
"""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.model import SettingsError
from simulator.host.triggers.jsonnet import UNDEFINED, plain, read
from simulator.host.triggers.queues import Message
from singleton.base.errors import SingletonError
from singleton.base.words import listed, quoted
from singleton.scopes.formats import formatted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.model import Parameter


BINARY: Final = (2, 3)
"""Data types of a trigger that gets bytes."""
_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_SHOWN_DATE: Final = "MM/dd/yyyy HH:mm:ss zzz"


def binding_data(trigger: Parameter, cause: object) -> dict[str, object]:
    """Return the binding data of the cause of an invocation: of a queue message (H-47); a timer has none.

    Properties of a JSON object in its body replace the message's value of the same name, in upper or lower case. Null
    and lists replace nothing, and nothing is replaced if the trigger's data type is binary (H-80).
    """
    if not isinstance(cause, Message):
        return {}
    text = cause.body.decode("utf-8", "replace")
    dates = {
        "InsertionTime": cause.inserted,
        "ExpirationTime": cause.expires,
        "NextVisibleTime": cause.next_visible,
    }
    data: dict[str, object] = {
        "QueueTrigger": text,
        "Id": cause.id,
        "PopReceipt": cause.pop_receipt,
        "DequeueCount": str(cause.dequeue_count),
        **{name: date for name, date in dates.items() if date is not None},
    }
    for name, value in ({} if trigger.data_type in BINARY else properties(text)).items():
        spelt = next((known for known in data if known.casefold() == name.casefold()), name)
        data[spelt] = value
    return data


def bound(text: str, data: Mapping[str, object], where: str) -> str:
    """Replace each ``{name}``, ``{name.of.property}`` and ``{name:format}`` by its value.

    Raises:
        SettingsError: there is no such value, or it has no such format.
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
            pattern = pattern or _SHOWN_DATE
        elif not pattern:
            return plain(found)
        try:
            return formatted(found, pattern, f"{where}: {{{match[1]}}}")
        except SingletonError as error:
            raise SettingsError(str(error)) from error

    return _PIECE.sub(value, text)


def properties(text: str) -> dict[str, Any]:
    """Return what a body adds to the binding data, or replaces in it: its top-level properties, as texts or objects."""
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
