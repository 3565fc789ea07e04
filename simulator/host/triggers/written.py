"""The host's half of a queue output: which messages it writes for the typed data that the worker sends (H-87)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.host.triggers.jsonnet import plain, read

if TYPE_CHECKING:
    from simulator.host.triggers.typed import Typed


def written(data: Typed) -> list[bytes]:
    """Return the bodies of the messages.

    Text that looks like a JSON object is written anew. Each element of a JSON array becomes a message. Bytes stay as
    they are.

    Raises:
        ValueError: a text looks like JSON but is none: the invocation fails.
    """
    if data.kind == "bytes":
        return [data.value]
    found = _found(data)
    return [plain(item).encode() for item in (found if isinstance(found, list) else [found])]


def _found(data: Typed) -> Any:
    if data.kind == "json":
        return read(data.value, dates=False)
    if data.kind == "string" and (data.value.strip()[:1], data.value.strip()[-1:]) in {("{", "}"), ("[", "]")}:
        try:
            return read(data.value, dates=True)
        except ValueError as error:
            raise ValueError(f"text that begins with {data.value.strip()[0]} must be JSON: {error}") from error
    return data.value
