r"""Names of lock blobs: ``locks/{hostId}/{function}[.{scope}]…``, injective whatever the parts hold.

    >>> lock_name("myapp", "ship", ["42"])
    'locks/myapp/ship.42'
    >>> lock_name("myapp", "ship", ["../../other/lock"])
    'locks/myapp/ship.%2E%2E%2F%2E%2E%2Fother%2Flock'
    >>> lock_name("myapp", "ship", ["north"], level="host")
    'locks/myapp/~north'
    >>> lock_name("myapp", "ship", listener=True)
    'locks/myapp/ship~listener'

Each part keeps ``A-Z a-z 0-9 _ -`` and has every other byte of its UTF-8 percent-encoded, so the three characters
with a meaning of their own (``/`` between segments, ``.`` between parts, ``~`` below) can't come from a part. A name
that would be too long is cut and ends in ``~`` and a hash of the whole name. So no scope value, however hostile,
reaches another lock or leaves its prefix, and different parts never make the same name (B11).

WebJobs writes scopes unescaped, ``\`` as ``/`` (W-28 to W-30, W-43): different scopes can mean one blob of WebJobs.

``safe_name`` makes a name of any text, as DistributedLock's safe names are made (M-7 to M-12).
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.base.kinds import LEVELS, Level
from singleton.base.names import check_blob_name
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME: Final = 250
"""Blob names may have 1,024 characters, but 256 on the emulator (M-9)."""
_LONGEST_HOST: Final = 100
_HASH_DIGITS: Final = 40
LONGEST_SEMAPHORE: Final = LONGEST_NAME - len("/slot-") - 10
"""Characters of a semaphore's name, at most: the names of its slots are longer."""

_KEPT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WRITTEN: Final = tuple(chr(byte) if byte in _KEPT else f"%{byte:02X}" for byte in range(256))

_HASH: Final = r"~[0-9a-f]{40}\Z"
_UNSAFE: Final = r"[^A-Za-z0-9_./-]"


def lock_name(
    host_id: str, function: str, scopes: Sequence[str] = (), level: Level = "function", *, listener: bool = False
) -> str:
    """Return the name of the blob whose lease is this lock.

    Args:
        host_id: the id that the apps which share the lock have in common.
        function: the function's name; level "host" leaves it out (W-30).
        scopes: the scope's values, in order. None of them may be empty.
        level: "function" for a lock of this function, "host" for one that functions share by naming the same scope.
        listener: for the lock of the listener, a different lock from the invocations' (W-15).

    Raises:
        ConfigurationError: there is no host id (W-31), no function, no scope at level "host" (W-10), or no such level.
        ScopeError: a scope's value is empty.
    """
    check_parts(host_id, function, scopes, level)
    if not all(scopes):
        raise ScopeError(f"a scope of {quoted(function)} has an empty value: give one that is not empty")
    parts = [*map(encoded, scopes)]
    if level == "function":
        parts.insert(0, encoded(function))
    else:
        parts[0] = f"~{parts[0]}"  # no function's encoded name begins with a tilde
    name = _folder(host_id) + ".".join(parts)
    return _shortened(f"{name}~listener" if listener else name, LONGEST_NAME)


def hashed_scope(value: str) -> str:
    """Return the hash of a scope's value, for names that must not show it. An empty value stays empty, and wrong.

    >>> hashed_scope("jane@example.com")
    '8c87b489ce35cf2e2f39f80e282cb2e804932a56'
    """
    return digest(value) if value else value


def semaphore_name(name: str) -> str:
    """Return the name of the semaphore where ``limit`` holders at a time have this lock: short enough for its slots'.

    >>> semaphore_name("locks/myapp/ship.42")
    'locks/myapp/ship.42'
    """
    return _shortened(name, LONGEST_SEMAPHORE)


def check_parts(host_id: str, function: str, scopes: Sequence[str], level: Level) -> None:
    """Refuse parts of which no lock can be named, whatever the scopes hold. See ``lock_name`` for the errors."""
    if level not in LEVELS:
        raise ConfigurationError(f"level is {quoted(level)}: give 'function' or 'host'")
    if isinstance(scopes, str):
        raise ConfigurationError(f"scopes is the text {quoted(scopes)}: give a list of texts")
    if not host_id.strip():
        raise ConfigurationError(
            "host_id is empty: it is part of each lock's name; set hostId in the section singleton of host.json"
        )
    if level == "function" and not function:
        raise ConfigurationError("function is empty: the name of a lock with level 'function' begins with it")
    if level == "host" and not scopes:
        raise ConfigurationError("level 'host' needs a scope: functions with the same scope share the lock")


def hashed_name(folder: str, text: str) -> str:
    """Return a name in the folder for a text that is no valid name: a safe beginning, and a hash."""
    readable = encoded(text).replace("%2E", ".")[: LONGEST_NAME - len(folder) - _HASH_DIGITS - 1]
    return f"{folder}{_without_half_escape(readable)}~{digest(text)}"


def digest(text: str) -> str:
    """Return the hash that replaces a text in a name."""
    with importing:
        from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


@lru_cache(64)
def _folder(host_id: str) -> str:
    return f"locks/{_shortened(encoded(host_id), _LONGEST_HOST)}/"


@lru_cache(256)
def encoded(part: str) -> str:
    """Return a part as it stands in names.

    >>> encoded("north/3.5")
    'north%2F3%2E5'
    """
    # surrogatepass: JSON may hold half a surrogate pair, which is a value like any other
    return "".join([_WRITTEN[byte] for byte in part.encode("utf-8", "surrogatepass")])


def _shortened(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    return f"{_without_half_escape(name[: longest - _HASH_DIGITS - 1])}~{digest(name)}"


def _without_half_escape(name: str) -> str:
    whole, percent, rest = name.rpartition("%")
    return whole if percent and len(rest) < 2 else name


def safe_name(text: str) -> str:
    """Return a name that a lock may have: the text itself if it is a valid name, else its safe characters and a hash.

    Different texts have different names (those of 160 bits of SHA-256 apart), on the emulator and in the cloud alike.

    >>> safe_name("tenants/42"), safe_name("tenants/42/")
    ('tenants/42', 'tenants/42~3cfc6e4bb5b9b0e22b96eacd9833536a5cdd78cb')
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"text is {quoted(text)}: give a text, of which a name can be made")
    with suppress(ConfigurationError):
        check_blob_name(text)
        if len(text) <= LONGEST_NAME and not re.search(_HASH, text):  # no name that this function makes of another text
            return text
    kept = re.sub(_UNSAFE, "_", text[: LONGEST_NAME - 41]).split("/")[:100]
    readable = "/".join(filter(None, (part.rstrip(".") for part in kept)))
    return f"{readable}~{digest(text)}"
