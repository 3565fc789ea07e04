"""Which blob a guard's lock is, as far as it is known before there is a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.functions.message_properties import is_binary
from singleton.functions.triggers import ACTIVITY, MCP_TOOL, QUEUE
from singleton.layouts.blob_name import digest, hashed_scope, semaphore_name
from singleton.scopes.template import ScopeTemplate, placeholders_split
from singleton.settings.hostid import host_id, is_machine_bound

if TYPE_CHECKING:
    from simulator.appcheck.checked_app import AppSettings, Subject
    from singleton.functions.declaration import Declaration
    from singleton.functions.triggers import Trigger

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
_MESSAGES: Final = frozenset({QUEUE, "eventHubTrigger", "kafkaTrigger", "serviceBusTrigger"})
_BODY_WINS: Final = _MESSAGES | {ACTIVITY, MCP_TOOL}
"""Triggers with which ``{Id}`` is the body's property ``Id`` where the body has such a property."""


class LockPlace(NamedTuple):
    """The place of a lock: the account's setting, the container, the blob. ``{name}`` comes from the payload.

    Attributes:
        slots: the number of a semaphore's slots; a slot is a blob.
        marked: the blob's name with a mark for each unknown part. Two locks with equal marked names may be one lock.
        parts: the unknown parts, each by what it surely is.
        folded: the same, in lower case where a message's case does not count.
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
        """A hash for equal locks also where a template writes a property's name in another case.

        A path of the body has here the value of the template which surely names the same property.
        """
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
    marks = _Marks(subject.trigger)
    scopes = _scopes(guard, subject.app, marks)
    host = _host(guard, subject.app) or marks.word(HOST_ID)
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
    return host_id(app.values, app.folder)


def _scopes(guard: Declaration, app: AppSettings, marks: _Marks) -> list[str]:
    key = getattr(guard, "key", None)
    if key is not None:
        return [_keyed(key.given, app, marks)]
    found = []
    if guard.scope_id:
        found.append(_templated(guard, app, marks))
    if guard.scope is not None:
        found.append(marks.path(guard.scope, hashed=guard.scope_hash))
    return found


def _keyed(given: object, app: AppSettings, marks: _Marks) -> str:
    if not isinstance(given, str):
        return marks.word("{key}")
    if "{" not in given and "%" not in given:
        return marks.path(given)
    return marks.template(ScopeTemplate(given, named="key").bind(app.values, None))


def _templated(guard: Declaration, app: AppSettings, marks: _Marks) -> str:
    text = guard.template.bind(app.values, None)
    literals, names = placeholders_split(guard.scope_id, app.values)
    if guard.scope_hash:
        return marks.template(text, hashed=True) if names else hashed_scope(text)
    between = [marks.template(found) for found in _PIECE.findall(text) if found not in _BRACES]
    return literals[0] + "".join(mark + literal for mark, literal in zip(between, literals[1:], strict=True))


def _folded(text: str) -> str:
    """Return a template with lower-case names: the case of a property's name does not count in a message."""

    def lowered(found: re.Match[str]) -> str:
        name, colon, pattern = found[0].partition(":")
        return f"{name.lower()}{colon}{pattern}"

    return _PIECE.sub(lowered, text)


class _Marks:
    """Texts that stand in a name for what people are shown in their place.

    Attributes:
        all: what is marked: for ``parts`` of a ``LockPlace``, and for ``folded``.
    """

    def __init__(self, trigger: Trigger) -> None:
        self._shown: list[str] = []
        self._of_host = trigger.type in _MESSAGES and is_binary(trigger)
        self._body_wins = trigger.type in _BODY_WINS and not self._of_host
        self.all: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def mark(self, shown: str, part: str, folded: str) -> str:
        self._shown.append(shown)
        self.all = ((*self.all[0], part), (*self.all[1], folded))
        return _MARK.format(len(self._shown) - 1)

    def word(self, shown: str) -> str:
        """Mark what is the same wherever the same word stands for it."""
        return self.mark(shown, shown, shown)

    def path(self, path: str, *, hashed: bool = False) -> str:
        """Mark the property of the body at a path."""
        what = "hash of " if hashed else ""
        template, of_body = f"{what}{{{path}}}", f"{what}body {path}"
        is_same = self._body_wins and path.isidentifier()  # a template has other signs between levels
        return self.mark(f"{{{what}{path}}}", of_body, template if is_same else of_body)

    def template(self, text: str, *, hashed: bool = False) -> str:
        """Mark a text with placeholders, for which the host may have other values than the body."""
        shown, what = (f"{{hash of {text}}}", "hash of ") if hashed else (text, "")
        what += "host " if self._of_host else ""
        return self.mark(shown, what + text, what + _folded(text))

    def shown(self, name: str) -> str:
        if self._shown:
            name = _CUT.sub(f"~{HASH}", name)
        for index, shown in enumerate(self._shown):
            name = name.replace(_MARK.format(index), shown)
        return name
