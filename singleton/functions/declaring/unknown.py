"""What is said of a keyword that ``@singleton`` does not have: what is meant, or where it is set."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from singleton.base.words import did_you_mean, quoted
from singleton.settings.options import SETTING_PREFIX, SingletonOptions, camel

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEASE: Final = "lock_period (the lease, which is renewed) or max_hold (after which it is not renewed any more)"
_CONTENTION: Final = "on_contention: 'skip' or 'raise' does not wait"
_ELSEWHERE: Final = {
    "blocking": _CONTENTION,
    "blocking_timeout": "timeout",
    "concurrency": "limit",
    "expire": _LEASE,
    "expires": _LEASE,
    "expiry": _LEASE,
    "lease_duration": _LEASE,
    "lock_acquisition_timeout": "timeout",
    "lock_at_least_for": "at_least",
    "lock_at_most_for": "max_hold",
    "lock_ttl": _LEASE,
    "max_concurrency": "limit",
    "max_concurrent": "limit",
    "max_count": "limit",
    "sleep": "lock_acquisition_polling_interval",
    "ttl": _LEASE,
    "wait_timeout": "timeout",
}
"""What other libraries and host.json call it, and what it is here."""


def no_such_argument(keyword: str, names: Sequence[str]) -> str:
    """Return what is wrong with this keyword, and what to do; ``names``: those that there are."""
    said = f"@singleton has no argument {quoted(keyword)}"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", keyword).lower()
    if snake in names:
        return f"{said}: write {snake}"
    if snake in _ELSEWHERE:
        return f"{said}: give {_ELSEWHERE[snake]}"
    if snake in [field.name for field in fields(SingletonOptions)]:
        return (
            f"{said}: it is an option of the whole app. Set {camel(snake)} in the singleton section of host.json, or "
            f"the app setting {SETTING_PREFIX}__{camel(snake)}"
        )
    hint = did_you_mean(keyword, names) or "."
    return f"{said}{hint} Its arguments are {', '.join(names)}"
