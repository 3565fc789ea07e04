"""What an app declares: the arguments of a ``@singleton`` or ``@once`` as the app wrote them, and the options in force.

Read from docs/options.md and docs/layouts.md, without any code of the product: a guard that drops or changes an option
is judged by the option as written.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from simulator.expected.values import setting

if TYPE_CHECKING:
    from collections.abc import Mapping

ARGUMENTS: Final[Mapping[str, Any]] = {
    "scope": None,
    "scope_id": "",
    "level": "function",
    "mode": "function",
    "limit": None,
    "on_contention": "wait",
    "timeout": None,
    "max_waiting": None,
    "when_full": None,
    "at_least": 0.0,
    "max_hold": None,
    "name": None,
    "connection": "AzureWebJobsStorage",
    "layout": "default",
    "dotnet_name": None,
    "scope_hash": False,
    "also": None,
}
"""The arguments that are no options of the whole app, and their defaults."""
OPTIONS: Final[Mapping[str, Any]] = {
    "lock_period": 15.0,
    "listener_lock_period": 60.0,
    "lock_acquisition_timeout": None,
    "lock_acquisition_polling_interval": 5.0,
    "lock_acquisition_min_polling_interval": 0.1,
    "listener_lock_recovery_polling_interval": 60.0,
    "renewal_interval": None,
    "handoff_window": 30.0,
    "defer_delay": 10.0,
    "failover": None,
    "cancel_on_loss": True,
    "fencing_tokens": True,
    "container": "webjobshost",
    "host_id": None,
}
"""Options of the app, and their defaults."""
_TEXTS: Final = frozenset({"container", "host_id"})
_IN_DEVELOPMENT: Final = 15.0
"""Seconds of a listener's lease on a developer's machine, by default (W-24)."""
_LOOKS: Final = 4
"""How often in the time of ``failover`` a candidate asks for the listener's lock."""
_SPREAD: Final = 1.25
"""A deferred message stays away for so many times ``defer_delay`` at most."""
_WEEK: Final = timedelta(days=7)
_FOREVER: Final = (2**63 - 1) // 10_000_000
_SPAN: Final = re.compile(r"(?:(\d+)[.:])?(\d+):(\d+):(\d+(?:\.\d+)?)|(\d+):(\d+)", re.ASCII)
_DEQUEUEABLE: Final = "Dequeueable__Singleton__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One ``@singleton`` or ``@once``. ``given``: the arguments as written; ``options``: the options in force."""

    given: Mapping[str, Any]
    options: Mapping[str, Any]

    @staticmethod
    def of(given: Mapping[str, Any], of_the_app: Mapping[str, Any], settings: Mapping[str, str]) -> Declaration:
        """Return the declaration with these arguments in an app with these options and app settings."""
        own = {name: given[name] for name in OPTIONS if given.get(name) is not None}
        own |= {name: in_seconds(value) for name, value in own.items() if type(value) is not bool}
        layout = given.get("layout")
        laid = {"container": "azure-webjobs-hosts"} if layout == "webjobs" else {}
        if layout == "dequeueable":
            laid = _of_dequeueable(settings)
            given = {"scope": None if given.get("scope_id") else setting(settings, f"{_DEQUEUEABLE}Scope"), **given}
        return Declaration(given=given, options={**of_the_app, **laid, **own})

    def __getitem__(self, name: str) -> Any:
        """Return an argument as written, or its default."""
        return self.given.get(name, ARGUMENTS[name])

    @property
    def policy(self) -> str:
        """The policy under contention; ``custom``: a function of the app."""
        return self["on_contention"] if isinstance(self["on_contention"], str) else "custom"

    @property
    def lease(self) -> float:
        """Seconds of a lease."""
        return float(self.options["listener_lock_period" if self["mode"] == "listener" else "lock_period"])

    @property
    def poll(self) -> float:
        """The longest time in seconds between two requests for the lease."""
        recovery = self._recovery if self["mode"] == "listener" else None
        return float(self.options["lock_acquisition_polling_interval"] if recovery is None else recovery)

    @property
    def _recovery(self) -> float | None:
        recovery, failover = self.options["listener_lock_recovery_polling_interval"], self.options["failover"] or 0
        if recovery is None or math.isinf(recovery):
            return None
        return float(min(recovery, failover / _LOOKS) if failover else recovery)

    @property
    def waits(self) -> float | None:
        """Seconds for which an invocation waits; None: as long as it takes."""
        listens = self["mode"] == "listener"
        if self.policy == "custom" or (listens and self._recovery is not None):
            return 0.0
        return self.patience if self["timeout"] is not None or listens or self.policy in ("wait", "coalesce") else 0.0

    @property
    def patience(self) -> float | None:
        """Seconds for which an invocation waits that is to wait; None: as long as it takes."""
        given = self["timeout"]
        return in_seconds(self.options["lock_acquisition_timeout"] if given is None else given)

    @property
    def keep(self) -> float | None:
        """Seconds for which ``@once`` keeps a result."""
        return in_seconds(self.given.get("keep", _WEEK))

    def facts(self) -> dict[str, Any]:
        """Return what the journal tells of the guard."""
        fills = self.policy if self["max_waiting"] is not None and self.policy in {"defer", "conflict"} else "raise"
        tokens = self.options["fencing_tokens"] and self["layout"] != "webjobs" and self["limit"] is None
        return {
            "scope": self["scope"],
            "scope_id": self["scope_id"],
            "level": self["level"],
            "mode": self["mode"],
            "on_contention": self.policy,
            "timeout": self.waits,
            "lease": self.lease,
            "renewal": self.options["renewal_interval"],
            "failover": self.options["failover"] or None,
            "cancels": self.options["cancel_on_loss"],
            "poll": self.poll,
            "window": self.options["handoff_window"],
            "tokens": tokens,
            "at_once": self["limit"] or 1,
            "several": self["limit"] is not None,
            "at_least": in_seconds(self["at_least"]),
            "max_hold": in_seconds(self["max_hold"]),
            "max_waiting": self["max_waiting"],
            "when_full": self["when_full"] or fills,
            "merges": self["layout"] != "default",
            "away": self.options["defer_delay"] * _SPREAD,
            "also": self["also"] is not None,
        }


def options_in_force(section: Mapping[str, object], settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of an app: host.json's section ``singleton``, and over it the app settings.

    >>> options_in_force({"lockPeriod": "00:00:30"}, {"AzureFunctionsJobHost__singleton__LOCKPERIOD": "00:01"})[
    ...     "lock_period"
    ... ]
    60.0

    Values that the product refuses never come here: the app does not start.
    """
    in_development = (setting(settings, "AZURE_FUNCTIONS_ENVIRONMENT") or "").strip().lower() == "development"
    found = {**OPTIONS, **({"listener_lock_period": _IN_DEVELOPMENT} if in_development else {})}
    written = {key.casefold(): value for key, value in section.items()}
    for name in OPTIONS:
        key = name.replace("_", "")
        over = setting(settings, f"AzureFunctionsJobHost__singleton__{key}")
        if over is not None or key in written:
            value = written.get(key) if over is None else over
            found[name] = value if name in _TEXTS else _read(value)
    return found


def _read(value: object) -> object:
    """Return a switch, or a time span in seconds; None: without a limit."""
    text = str(value).strip()
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if (span := _SPAN.fullmatch(text)) is None:
        return None
    days, hours, minutes, seconds, *short = span.groups(default="0")
    first, second = int(days) * 24 + int(hours) + int(short[0]), int(minutes) + int(short[1])
    if span[1] is None and span[4] is not None and int(hours) > 23:  # as in .NET: days, hours, minutes (H-55)
        return ((int(hours) * 24 + int(minutes)) * 60 + float(seconds)) * 60
    total = (first * 60 + second) * 60 + float(seconds)
    return None if total >= _FOREVER else total


def in_seconds(value: Any) -> float | None:
    """Return a duration as an app wrote it, in seconds; None: without a limit."""
    return value.total_seconds() if isinstance(value, timedelta) else value if value is None else float(value)


def _of_dequeueable(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what the settings of Dequeueable lay down (D-1)."""
    names = {"LeaseDurationInSeconds": "60", "MaximumPollingIntervalInSeconds": "120", "ContainerName": "webjobshost"}
    lease, longest, container = (setting(settings, _DEQUEUEABLE + name) or names[name] for name in names)
    return {
        "lock_period": float(lease),
        "lock_acquisition_polling_interval": float(longest),
        "lock_acquisition_timeout": None,
        "container": container,
    }
