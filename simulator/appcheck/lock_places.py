"""Which blob a guard's lock is, as far as it is known before there is a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.layouts.blob_name import digest, hashed_scope, semaphore_name
from singleton.scopes.template import ScopeTemplate, placeholders_split
from singleton.settings.hostid import host_id, is_machine_bound

if TYPE_CHECKING:
    from simulator.appcheck.checked_app import AppSettings, Subject
    from singleton.functions.declaration import Declaration

HOST_ID: Final = "<hostId>"
"""Stands for a host id that is not known here: that of the machine or app that will run the function."""
HASH: Final = "<hash>"
"""Stands for the hash at the end of a name that is too long, where a part of that name is not known here."""
_MARK: Final = "zq{}qz"
"""Stands in a name for what is not known: letters and digits, which every layout leaves as they are."""
_CUT: Final = re.compile(r"(?<=[^/])(?:zq\d*q?)?~[0-9a-f]{40}\Z")
"""The end of a name that was too long: a hash, and before it perhaps the half of a mark."""


_BRACES: Final = ("{{", "}}")
_PIECE: Final = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
"""A placeholder of a template, or braces that stand for themselves."""


class LockPlace(NamedTuple):
    """The place of a lock: the account's setting, the container, the blob. ``{name}`` comes from the payload.

    Attributes:
        slots: the number of a semaphore's slots; a slot is a blob.
        marked: the blob's name with a mark for each unknown part. Two locks with equal marked names may be one lock.
        parts: the unknown parts, as people are shown them.
        folded: the unknown parts, in lower case where a message's case does not count.
    """

    connection: str
    container: str
    blob: str
    slots: int | None = None
    marked: str = ""
    parts: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.container}/{self.blobs}"

    @property
    def blobs(self) -> str:
        """The blob; of a semaphore, the blobs of the slots: ``locks/<hostId>/call/slot-<0-2>``."""
        if self.slots is None:
            return self.blob
        return f"{self.blob}/slot-{'0' if self.slots == 1 else f'<0-{self.slots - 1}>'}"

    @property
    def identity(self) -> str:
        """A hash of all that names the lock, but for its slots: of a name that is cut, also of what is cut off."""
        return self._digest(self.parts)

    @property
    def folded_identity(self) -> str:
        """A hash for equal locks also where a template writes a property's name in another case."""
        return self._digest(self.folded)

    def _digest(self, parts: tuple[str, ...]) -> str:
        return digest("\n".join((self.connection, self.container, self.marked, *parts)))


def lock_of(guard: Declaration, subject: Subject) -> LockPlace:
    """Return where the lock of a guard is.

    >>> str(LockPlace("AzureWebJobsStorage", "webjobshost", "locks/<hostId>/ship.{Id}"))
    'webjobshost/locks/<hostId>/ship.{Id}'

    Raises:
        ConfigurationError: a setting is missing, or the declaration can't name a lock.
        ScopeError: the scope's text can't.
    """
    marks = _Marks()
    scopes = _scopes(guard, subject.app, marks)
    host = _host(guard, subject.app) or marks.mark(HOST_ID)
    listens = guard.mode == "listener"
    blob = guard.layout.lock(host, guard.name or subject.name, scopes, guard.level, listener=listens)
    if guard.limit is not None:
        blob = semaphore_name(blob)
    return LockPlace(
        _shown(guard.connection), guard.options.container, marks.shown(blob), guard.limit, blob, *marks.all
    )


def lock_of_inbox(inbox: Any) -> LockPlace:
    """Return where the locks of an inbox are: each key has one."""
    client, locks = inbox.service.client, inbox.service.names.locks
    container = client._options.container  # noqa: SLF001 - the inbox's own client
    return LockPlace(_shown(str(client._connection)), container, f"{locks}{{key}}", None, locks)  # noqa: SLF001


def _shown(connection: str) -> str:
    return connection if "=" not in connection else "(a connection string in the code)"


def _host(guard: Declaration, app: AppSettings) -> str | None:
    if guard.options.host_id is not None:
        return guard.options.host_id
    if is_machine_bound(app.values):
        return None
    try:
        return host_id(app.values, app.folder)
    except ConfigurationError:
        return None


def _scopes(guard: Declaration, app: AppSettings, marks: _Marks) -> list[str]:
    key = getattr(guard, "key", None)
    if key is not None:
        return [_keyed(key.given, app, marks)]
    found = []
    if guard.scope_id:
        found.append(_templated(guard, app, marks))
    if guard.scope is not None:
        path = f"{{{guard.scope}}}"
        found.append(marks.mark(f"{{hash of {guard.scope}}}" if guard.scope_hash else path))
    return found


def _keyed(given: object, app: AppSettings, marks: _Marks) -> str:
    if not isinstance(given, str):
        return marks.mark("{key}")
    is_template = "{" in given or "%" in given
    text = ScopeTemplate(given, named="key").bind(app.values, None) if is_template else f"{{{given}}}"
    return marks.mark(text, _folded(text) if is_template else text)


def _templated(guard: Declaration, app: AppSettings, marks: _Marks) -> str:
    text = guard.template.bind(app.values, None)
    literals, names = placeholders_split(guard.scope_id, app.values)
    if guard.scope_hash:
        return marks.mark(f"{{hash of {text}}}", f"{{hash of {_folded(text)}}}") if names else hashed_scope(text)
    between = [marks.mark(found, _folded(found)) for found in _PIECE.findall(text) if found not in _BRACES]
    return literals[0] + "".join(mark + literal for mark, literal in zip(between, literals[1:], strict=True))


def _folded(text: str) -> str:
    """Return a template with lower-case names: the case of a property's name does not count in a message."""

    def lowered(found: re.Match[str]) -> str:
        name, colon, pattern = found[0].partition(":")
        return f"{name.lower()}{colon}{pattern}"

    return _PIECE.sub(lowered, text)


class _Marks:
    """Texts that stand in a name for what people are shown in their place."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._folded: list[str] = []

    @property
    def all(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The parts, as they are shown and folded."""
        return tuple(self.parts), tuple(self._folded)

    def mark(self, shown: str, folded: str | None = None) -> str:
        self.parts.append(shown)
        self._folded.append(shown if folded is None else folded)
        return _MARK.format(len(self.parts) - 1)

    def shown(self, name: str) -> str:
        if self.parts:
            name = _CUT.sub(f"~{HASH}", name)
        for index, shown in enumerate(self.parts):
            name = name.replace(_MARK.format(index), shown)
        return name
