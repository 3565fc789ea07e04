"""Options: host.json's ``singleton`` section, then app settings, then arguments, each checked by name and value."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from singleton.base.appsettings import filled, section
from singleton.base.errors import ConfigurationError
from singleton.base.failover_mark import LONGEST, LOOKS, SHORTEST
from singleton.base.forks import importing
from singleton.base.names import check_container_name
from singleton.base.timespan import FOREVER, bare_number_refused, host_json_timespan, parse_timespan
from singleton.base.words import as_json, did_you_mean, quoted
from singleton.settings.argument_names import OPTIONS, meant_by, with_explained_arguments
from singleton.settings.durations import Limits, in_words
from singleton.settings.hostid import in_development
from singleton.settings.hostjson import singleton_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from singleton.base.appsettings import Environment
    from singleton.base.kinds import Seconds

FAILOVER: Final = Limits(SHORTEST, LONGEST)
_UNLIMITED: Final = ", or None for no limit"

DURATIONS: Final[dict[str, Limits]] = {
    "lock_period": Limits(15, 60, whole=True),  # W-17; the service takes whole seconds
    "listener_lock_period": Limits(15, 60, whole=True),  # W-18
    "lock_acquisition_timeout": Limits(above=0, note=_UNLIMITED),  # W-19
    "lock_acquisition_polling_interval": Limits(0.5),  # W-20
    "lock_acquisition_min_polling_interval": Limits(0.01),
    "listener_lock_recovery_polling_interval": Limits(15, note=_UNLIMITED),  # W-21
    "handoff_window": Limits(0),
    "renewal_interval": Limits(1),
    "defer_delay": Limits(1, 604_800),
    "failover": FAILOVER,
}
_NO_LIMIT: Final = FOREVER // 1
"""Seconds from which a time-out means no limit: ``10675199.02:48:05`` is often written without its fraction."""
_MAY_BE_NONE: Final = ("lock_acquisition_timeout", "listener_lock_recovery_polling_interval")
CHOICES: Final = {"http": ("direct", "sdk")}
_SWITCHES: Final = ("fencing_tokens", "cancel_on_loss", "enabled", "fail_fast", "local_run_warning")

_WEBJOBS: Final = (  # W-22
    *("lock_period", "listener_lock_period", "lock_acquisition_timeout", "lock_acquisition_polling_interval"),
    "listener_lock_recovery_polling_interval",
)

_LATEST_RENEWAL: Final = 5 / 6
"""Part of the period after which a lease is renewed at the latest (S-8: 50 of 60 s)."""

FOR_ONE_FUNCTION: Final = (
    *("scope", "scope_id", "level", "mode", "limit", "on_contention", "max_waiting", "when_full", "at_least"),
    *("max_hold", "name", "connection", "layout", "dotnet_name", "scope_hash", "also"),
)
"""Arguments of ``@singleton`` that are no options of the app."""

SETTING_PREFIX: Final = "AzureFunctionsJobHost__singleton"
_MISPLACED: Final = "AzureFunctionsJobHost__extensions__singleton"


@with_explained_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class SingletonOptions:
    """How locks are taken and kept. Durations are seconds; a ``timedelta`` is taken as well.

    >>> SingletonOptions(lock_period=30).replace(handoff_window=0).lock_period
    30.0

    Attributes:
        lock_period: length of the lease around an invocation, whole seconds from 15 to 60 (W-17).
        listener_lock_period: length of a leadership's lease, whole seconds from 15 to 60 (W-18).
        lock_acquisition_timeout: how long to wait for a lock, more than 0; None waits for ever (W-19).
        lock_acquisition_polling_interval: the longest wait between two polls for a lock, at least 0.5 (W-20).
        lock_acquisition_min_polling_interval: the first wait between two polls, which then grows; at least 0.01.
        listener_lock_recovery_polling_interval: how often a process that isn't the listener tries to become it, at
            least 15; None: never (W-21).
        renewal_interval: how long after each renewal a lease is renewed again, at least 1 and at most five sixths of
            its period; None: after half of it (W-69).
        handoff_window: how long one process may hand a lease on among its own waiters before other hosts get a turn.
        defer_delay: how long a message stays away that was put back because its lock was busy, give or take a quarter;
            from 1 second to 7 days. Deferred messages come back in no particular order.
        failover: after how many seconds of silence another process may take the lock, from 2 to 10, instead of waiting
            for the lease to run out. The holder then writes on the lock's blob three times in that time. It needs
            fencing tokens. None or 0: off.
        fencing_tokens: number the sections and record their owners, for one more storage call each.
        cancel_on_loss: cancel an async body when its lock is lost.
        container: the blob container of the locks; ``webjobs`` and ``dequeueable`` have containers of their own.
        host_id: the id under which locks are kept; None takes the Functions host's id.
        enabled: False runs bodies without locking.
        fail_fast: in a Functions worker, keep the whole app from loading where one declaration is wrong, so that
            messages wait. False: only that function fails, at each call.
        http: how requests travel to the storage: ``direct`` by this package itself, or ``sdk`` through
            azure-storage-blob, which takes more time. Of one container, the first lock of a process decides.
        local_run_warning: warn when a process on a developer's machine uses the locks of an account in the cloud (B24).

    Raises:
        ConfigurationError: a value is out of its range, or of the wrong type.
    """

    lock_period: float = 15.0
    listener_lock_period: float = 60.0
    lock_acquisition_timeout: float | None = None
    lock_acquisition_polling_interval: float = 5.0
    lock_acquisition_min_polling_interval: float = 0.1
    listener_lock_recovery_polling_interval: float | None = 60.0
    renewal_interval: float | None = None
    handoff_window: float = 30.0
    defer_delay: float = 10.0
    failover: float | None = None
    fencing_tokens: bool = True
    cancel_on_loss: bool = True
    container: str = "webjobshost"
    host_id: str | None = None
    enabled: bool = True
    fail_fast: bool = True
    http: Literal["direct", "sdk"] = "direct"
    local_run_warning: bool = True

    if TYPE_CHECKING:  # durations may be given as a timedelta; read, they are seconds

        def __init__(
            self,
            *,
            lock_period: Seconds = ...,
            listener_lock_period: Seconds = ...,
            lock_acquisition_timeout: Seconds | None = ...,
            lock_acquisition_polling_interval: Seconds = ...,
            lock_acquisition_min_polling_interval: Seconds = ...,
            listener_lock_recovery_polling_interval: Seconds | None = ...,
            renewal_interval: Seconds | None = ...,
            handoff_window: Seconds = ...,
            defer_delay: Seconds = ...,
            failover: Seconds | None = ...,
            fencing_tokens: bool = ...,
            cancel_on_loss: bool = ...,
            container: str = ...,
            host_id: str | None = ...,
            enabled: bool = ...,
            fail_fast: bool = ...,
            http: Literal["direct", "sdk"] = ...,
            local_run_warning: bool = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            if (value := getattr(self, name)) is not default:
                object.__setattr__(self, name, _checked(name, value, name))
        first, longest = self.lock_acquisition_min_polling_interval, self.lock_acquisition_polling_interval
        if first > longest:
            raise ConfigurationError(
                f"lock_acquisition_min_polling_interval is {in_words(first)}, more than "
                f"lock_acquisition_polling_interval, {in_words(longest)}: lower the first or raise the second"
            )
        if self.failover is not None and not self.fencing_tokens:
            raise ConfigurationError(
                f"failover is {self.failover:g}, and fencing_tokens is False: failover needs fencing tokens. "
                "Set fencing_tokens to True, or leave failover out"
            )
        for name in ("lock_period", "listener_lock_period"):
            latest = getattr(self, name) * _LATEST_RENEWAL
            if self.renewal_interval is not None and self.renewal_interval > latest:
                allowed = in_words(int(latest * 10) / 10)
                raise ConfigurationError(
                    f"renewal_interval is {in_words(self.renewal_interval)}, and {name} is "
                    f"{in_words(getattr(self, name))}: set renewal_interval to {allowed} or less, so that a "
                    "failed renewal can be tried again"
                )

    def __str__(self) -> str:
        """Return the five options of WebJobs as indented JSON (W-22)."""
        shown = {}
        for name in _WEBJOBS:
            value = getattr(self, name)
            key = "".join(word.capitalize() for word in name.split("_"))
            shown[key] = host_json_timespan(FOREVER if value is None else value)
        return json.dumps(shown, indent=2)

    @property
    def recovery(self) -> float | None:
        """Seconds between a candidate's attempts to become the listener or leader; None: there is only one."""
        interval = self.listener_lock_recovery_polling_interval
        return interval if interval is None or self.failover is None else min(interval, self.failover / LOOKS)

    def replace(self, **changes: object) -> SingletonOptions:
        """Return a copy with these options changed, checked like new ones."""
        unknown = next((name for name in changes if name not in _NAMES), None)
        if unknown is not None:
            raise ConfigurationError(_no_such_option(unknown, _NAMES))
        return replace(self, **changes) if changes else self  # type: ignore[arg-type]  # __post_init__ checks the types


def refuse_failover(options: SingletonOptions, what: str) -> None:
    """Refuse the option ``failover`` for ``what``, which does not go with it."""
    if options.failover is not None:
        raise ConfigurationError(
            f"failover is {options.failover:g}, and can't be used with {what}: leave it out there. Where host.json "
            "or options turn it on, failover=0 on @singleton or on the lock client turns it off"
        )


_DEFAULTS: Final = {field.name: field.default for field in fields(SingletonOptions)}
_NAMES: Final = tuple(_DEFAULTS)


def _checked(name: str, value: object, label: str, shown: str | None = None) -> object:
    """Return the option's value if it is allowed; Errors call the option ``label``."""
    if value is None and name in (*_MAY_BE_NONE, "host_id", "renewal_interval", "failover"):
        return None
    if name == "failover" and not isinstance(value, bool) and value in (0, timedelta(0)):
        return None
    if name in DURATIONS:
        return DURATIONS[name].check(value, label, shown)
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise ConfigurationError(
                f"{label} is {shown or quoted(value)}: give {'true or false' if shown else 'True or False'}"
            )
        return value
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise ConfigurationError(f"{label} is {shown or quoted(value)}: give {' or '.join(CHOICES[name])}")
        return value
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{label} is {shown or quoted(value)}: give a text that is not blank")
    if name == "container":
        try:
            return check_container_name(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{label}: {error}") from None
    return value


def camel(name: str) -> str:
    """Return an option's name as host.json spells it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_KEYS: Final = {camel(name): name for name in _NAMES}
for _key, _name in _KEYS.items():
    OPTIONS[_name] = (
        f"Set {_key} in the singleton section of host.json, or the app setting {SETTING_PREFIX}__{_key}; for a client "
        f"give options=SingletonOptions({_name}=…)"
    )
_BY_FOLDED_KEY: Final = {key.casefold(): name for key, name in _KEYS.items()}


class _Given(NamedTuple):
    """A value of a file or an app setting, with the place for messages."""

    value: object
    label: str

    def read(self, name: str) -> object:
        """Return the value as the option's type, checked."""
        value = self.value
        if value is None:
            if name in _MAY_BE_NONE:
                return None
            raise ConfigurationError(f"{self.label} is null: leave it out to have the default")
        if name in DURATIONS:
            value = self._seconds(value)
            value = None if value >= _NO_LIMIT and name in _MAY_BE_NONE else value
        elif name in _SWITCHES and isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower(), value)
        return _checked(name, value, self.label, as_json(self.value))

    def _seconds(self, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ConfigurationError(f"{self.label}: {bare_number_refused(value)}")
        if not isinstance(value, str):
            raise ConfigurationError(f'{self.label} is {as_json(value)}: write a time span, such as "00:00:30"')
        try:
            return parse_timespan(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.label}: {error}") from None


def load_options(app_dir: Path | None, settings: Mapping[str, str]) -> SingletonOptions:
    """Return the options of an app: host.json's ``singleton`` section, then app settings over it (W-23, H-31).

    Keys are those of WebJobs and ours in camel case; their case doesn't matter. Durations are written ``hh:mm:ss``.
    On a developer's machine (``AZURE_FUNCTIONS_ENVIRONMENT`` is Development, as ``func start`` sets it) the default of
    ``listenerLockPeriod`` is 15 seconds (W-24): who starts again soon needn't wait for the lease of the run before.

    Args:
        app_dir: the folder that has host.json; without the file, or without a folder, only settings count.
        settings: the app settings, as a rule ``os.environ``, with ``AzureFunctionsJobHost__singleton__lockPeriod`` etc.

    Raises:
        ConfigurationError: host.json can't be read, a key is unknown or given twice, or a value is not allowed. The
            message names the file or setting, the key, the value and the range.
    """
    defaults = SingletonOptions(listener_lock_period=15) if in_development(settings) else SingletonOptions()
    given = _given(app_dir, settings)
    values = {name: found.read(name) for name, found in given.items()}
    try:
        return defaults.replace(**values)
    except ConfigurationError as error:  # each value is right by itself, but not beside the others
        raise ConfigurationError(f"{' and '.join(found.label for found in given.values())}: {error}") from None


def sources_of_options(app_dir: Path | None, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the source of each option of the whole app: host.json key or app setting. Raise as ``load_options``."""
    return {name: found.label for name, found in _given(app_dir, settings).items()}


def _given(app_dir: Path | None, settings: Mapping[str, str]) -> dict[str, _Given]:
    for spelt, _, _ in section(settings, _MISPLACED):
        raise ConfigurationError(f"app setting {spelt} has no effect: the options are {SETTING_PREFIX}__…")
    found: dict[str, _Given] = {}
    if app_dir is not None:
        path = app_dir / "host.json"
        found = _collected((key, value, f"{path}: singleton.{key}") for key, value in singleton_entries(path))
    entries = section(settings, SETTING_PREFIX)
    return found | _collected((key, value, f"app setting {spelt}") for spelt, key, value in entries)


def _collected(entries: Iterable[tuple[str, object, str]]) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for key, value, label in entries:
        name = _BY_FOLDED_KEY.get(key.casefold())
        if name is None:
            raise ConfigurationError(f"{label}: {_no_such_key(key, _KEYS)}")
        if name in found:
            raise ConfigurationError(f"{label} is given twice, also as {found[name].label}: keep one of them")
        found[name] = _Given(value, label)
    return found


def find_app_dir(start: Path, settings: Mapping[str, str]) -> Path | None:
    """Return the folder of the Functions app, or None where there is none.

    It is ``AzureWebJobsScriptRoot`` if host.json is there, else the nearest folder with a host.json from ``start``
    upwards, else ``AzureWebJobsScriptRoot`` if it is a folder at all.
    """
    root = filled(settings, "AzureWebJobsScriptRoot")
    told = [type(start)(root)] if root else []
    candidates = [*told, start, *start.absolute().parents]
    with_host_json = (folder for folder in candidates if _is_readable_file(folder / "host.json"))
    return next(with_host_json, next((folder for folder in told if folder.is_dir()), None))


@lru_cache(maxsize=256)  # the declarations of a module ask for the same
def app_dir_of(file: str, settings: Environment) -> Path | None:
    """Return the folder of the app that has this source file. See ``find_app_dir``."""
    with importing:
        from pathlib import Path

    return find_app_dir(Path(file).parent, settings)


def _is_readable_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder above the app's that may not be looked into
        return False


def _no_such_option(name: str, known: Iterable[str]) -> str:
    """Say that no option has this name, with the nearest name and all names."""
    meant = next((key for key in known if _KEYS.get(key, key) in meant_by(name)), None)
    hint = did_you_mean(name, known) if meant is None else f"; did you mean {quoted(meant)}?"
    return f"there is no option {quoted(name)}{hint or '.'} The options are {', '.join(known)}."


def _no_such_key(key: str, known: Iterable[str]) -> str:
    """Say what is wrong with a key of host.json, or of an app setting; and where the argument belongs."""
    folded = key.replace("_", "").casefold()
    for name in FOR_ONE_FUNCTION:
        if folded == name.replace("_", ""):
            return f"there is no option {quoted(key)} for the whole app: give {name} to each @singleton that needs it"
    return _no_such_option(key, known)
