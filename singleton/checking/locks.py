"""Which blob a guard's lock is, as far as it is known before there is a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.layouts.naming import hashed_scope, semaphore_name
from singleton.scopes.template import placeholders_split
from singleton.settings.hostid import host_id, is_machine_bound

if TYPE_CHECKING:
    from singleton.checking.subject import AppSettings, Subject
    from singleton.functions.declaration import Declaration

HOST_ID: Final = "<hostId>"
"""Stands for a host id that is not known here: that of the machine or app that will run the function."""
_MARK: Final = "zq{}qz"
"""Stands in a name for what is not known: letters and digits, which every layout leaves as they are."""


class LockPlace(NamedTuple):
    """Where a lock is: the account's setting, the container, the blob. ``{name}`` comes from the payload."""

    connection: str
    container: str
    blob: str

    def __str__(self) -> str:
        return f"{self.container}/{self.blob}"


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
    shown = guard.connection if "=" not in guard.connection else "(a connection string in the code)"
    return LockPlace(shown, guard.options.container, marks.shown(blob))


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
    if getattr(guard, "key", None) is not None:
        return [marks.mark("{key}")]
    found = []
    if guard.scope_id:
        found.append(_templated(guard, app, marks))
    if guard.scope is not None:
        path = f"{{{guard.scope}}}"
        found.append(marks.mark(f"{{hash of {guard.scope}}}" if guard.scope_hash else path))
    return found


def _templated(guard: Declaration, app: AppSettings, marks: _Marks) -> str:
    text = guard.template.bind(app.values, None)
    literals, names = placeholders_split(guard.scope_id, app.values)
    if guard.scope_hash:
        return marks.mark(f"{{hash of {text}}}") if names else hashed_scope(text)
    between = [marks.mark(f"{{{name}}}") for name in names]
    return literals[0] + "".join(mark + literal for mark, literal in zip(between, literals[1:], strict=True))


class _Marks:
    """Texts that stand in a name for what people are shown in their place."""

    def __init__(self) -> None:
        self._shown: list[str] = []

    def mark(self, shown: str) -> str:
        self._shown.append(shown)
        return _MARK.format(len(self._shown) - 1)

    def shown(self, name: str) -> str:
        for index, shown in enumerate(self._shown):
            name = name.replace(_MARK.format(index), shown)
        return name
