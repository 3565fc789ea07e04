"""The expected name of a lock's blob, read from `docs/layouts.md`, without any code of the product."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Layout = Literal["default", "webjobs", "dequeueable"]

_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_LONGEST: Final = 250
_LONGEST_HOST: Final = 100


def expected_blob(
    layout: Layout, host_id: str, function: str, values: Sequence[str], *, of_the_host: bool, dotnet_name: str = ""
) -> str:
    r"""Return the name of the blob of an invocation's lock.

    >>> expected_blob("default", "app", "ship", ["a/b"], of_the_host=False)
    'locks/app/ship.a%2Fb'
    >>> expected_blob("webjobs", "app", "ship", ["a\\b"], of_the_host=False)
    'locks/app/Host.Functions.ship.a/b'

    Args:
        layout: the layout's name.
        host_id: the host id of the app's locks.
        function: the function's name to the Functions host.
        values: the values of its scope, each as text.
        of_the_host: whether the level is ``host``, without the function.
        dotnet_name: the C# method to which the lock belongs, in the layout webjobs.
    """
    if layout == "dequeueable":
        return values[0]
    if layout == "webjobs":
        whose = [] if of_the_host else [dotnet_name or f"Host.Functions.{function}"]
        return f"locks/{host_id}/{'.'.join([*whose, *values])}".rstrip("/").replace("\\", "/")
    escaped = [_escaped(value) for value in values]
    first = f"~{escaped.pop(0)}" if of_the_host else _escaped(function)
    return _cut(f"locks/{_cut(_escaped(host_id), _LONGEST_HOST)}/{'.'.join([first, *escaped])}", _LONGEST)


def _escaped(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode())


def _cut(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    kept = name[: longest - 41]
    if "%" in kept[-2:]:  # half an escaped byte
        kept = kept[: kept.rindex("%")]
    return f"{kept}~{sha256(name.encode()).hexdigest()[:40]}"
