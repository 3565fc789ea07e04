r"""The parts in the name of a lock's blob: the inverse of ``blob_name.lock_name``, and a guess at WebJobs' names.

    >>> read_name("locks/myapp/ship.42%2F7")
    NameParts(app='myapp', function='ship', scopes=('42/7',), level='function', listener=False, slot=None, cut=False)
    >>> read_name("reports") is None
    True

A name in the default layout is read exactly, or not at all: the parts would make the same name again, and no function
has more than two values in its scope. Only a name that was too long (``cut``) ends in a hash in place of the rest.

WebJobs does not escape, so its names can be read in several ways. Those of the Functions host's functions have the
type ``Host.Functions`` in front; behind it everything up to the first dot is taken for the function, the rest for the
scope. The whole of another name is given as the scope.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from singleton.base.errors import SingletonError
from singleton.layouts.blob_name import LONGEST_NAME, LONGEST_SEMAPHORE, hashed_scope, lock_name

if TYPE_CHECKING:
    from singleton.base.kinds import Level

_FOLDER: Final = "locks/"
_LISTENER: Final = "~listener"
_CUT: Final = re.compile(r"~[0-9a-f]{40}\Z")
_SLOT: Final = re.compile(r"/slot-(0|[1-9][0-9]{0,9})\Z")
_ENCODED: Final = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+")
_SHORTEST_CUT: Final = LONGEST_NAME - 2
"""A name that was cut is as long as one may be, but for half an escape that was dropped."""
_FUNCTION_OF_A_HOST: Final = "Host.Functions."
MOST_SCOPES: Final = 2
"""Values of a function's scope: those of ``scope_id`` and of ``scope``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameParts:
    """What a name says. See ``LockInfo`` for the fields."""

    app: str
    function: str | None = None
    scopes: tuple[str, ...] = ()
    level: Level | None = None
    listener: bool = False
    slot: int | None = None
    cut: bool = False


def read_name(name: str, *, webjobs: bool = False) -> NameParts | None:
    """Return what a lock's name says; None where it is not made by a layout: somebody chose it.

    ``webjobs``: whether the blob is in the container of WebJobs' locks.
    """
    return _read_webjobs(name) if webjobs else _read_default(name)


def key_behind(beginning: str, name: str, *, hashed: bool = False) -> str | None:
    """Return what follows the beginning of a lock's name; None: the name begins otherwise, or is another function's.

    ``hashed``: with hashes of the scope's values. Behind an empty beginning the name is the scope (``dequeueable``).

    >>> key_behind("locks/myapp/send", "locks/myapp/send.42"), key_behind("", "42")
    ('.42', '.42')
    """
    parts = read_name(name) if beginning else NameParts(app="-", function="-", scopes=(name,), level="function")
    if parts is not None and not parts.cut and (hashed or not beginning):
        scopes = [hashed_scope(value) if hashed else value for value in parts.scopes]
        name = lock_name(parts.app, parts.function or "", scopes, parts.level or "function", listener=parts.listener)
    key = name.removeprefix(beginning or "locks/-/-")
    return key if key[:1] in ("", ".", "/") else None


def _read_default(name: str, shortest_cut: int = _SHORTEST_CUT) -> NameParts | None:
    if (slot := _SLOT.search(name)) is not None:
        parts = _read_default(name[: slot.start()], LONGEST_SEMAPHORE - 2)
        return parts and replace(parts, slot=int(slot[1]))
    folder, _, rest = name.partition("/")
    host, slash, tail = rest.partition("/")
    if folder + "/" != _FOLDER or not slash or not tail:
        return None
    cut = len(name) >= shortest_cut and _CUT.search(tail) is not None
    if cut:
        tail = tail[:-41]
    listener = not cut and tail.endswith(_LISTENER)
    tail = tail.removesuffix(_LISTENER) if listener else tail
    level: Level = "host" if tail.startswith("~") else "function"
    texts = [_decoded(part, cut=cut) for part in tail.removeprefix("~").split(".")]
    app = _decoded(host[:-41] if (shortened := _CUT.search(host)) else host, cut=shortened is not None)
    if app is None or any(text is None for text in texts):
        return None
    values = tuple(text or "" for text in texts)
    function, scopes = (values[0], values[1:]) if level == "function" else (None, values)
    if len(scopes) > MOST_SCOPES:
        return None  # a C# method's lock in this container, for one: locks/orders/Contoso.Shop.Orders.Ship.42
    parts = NameParts(app=app, function=function, scopes=scopes, level=level, listener=listener, cut=cut)
    if cut or shortened:
        return parts
    with suppress(SingletonError):
        if lock_name(app, function or "", scopes, level, listener=listener) == name:
            return parts
    return None


def _decoded(part: str, *, cut: bool) -> str | None:
    """Return the text of an encoded part; of a cut part, without the character that lost a byte."""
    if not _ENCODED.fullmatch(part):
        return "" if cut and not part else None
    raw = unquote_to_bytes(part)
    for dropped in range(4 if cut else 1):
        try:
            return raw[: len(raw) - dropped].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue
    return None


def _read_webjobs(name: str) -> NameParts | None:
    folder, _, rest = name.partition("/")
    host, slash, lock_id = rest.partition("/")
    if folder + "/" != _FOLDER or not slash or not host or not lock_id:
        return None
    cut = len(name) >= _SHORTEST_CUT and _CUT.search(lock_id) is not None
    lock_id = lock_id[:-41] if cut else lock_id
    if not lock_id.startswith(_FUNCTION_OF_A_HOST):
        return NameParts(app=host, scopes=(lock_id,), cut=cut)
    function, _, scope = lock_id.removeprefix(_FUNCTION_OF_A_HOST).partition(".")
    listener = not cut and (scope == "Listener" or scope.endswith(".Listener"))
    scope = scope.removesuffix("Listener").removesuffix(".") if listener else scope
    return NameParts(
        app=host, function=function, scopes=(scope,) if scope else (), level="function", listener=listener, cut=cut
    )
