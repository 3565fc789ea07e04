"""Retry policies: what ``@app.retry`` and host.json's ``retry`` say of a function that fails (H-82)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import AppError
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import parse_timespan
from singleton.base.words import as_json, quoted
from singleton.settings.hostjson import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_FOREVER: Final = -1
_LONGEST: Final = 2147483647.0
_FORM: Final = 'give a text "hh:mm:ss" up to 23:59:59, for example "00:00:05"'


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed function is tried again, and after how many seconds.

    Attributes:
        most: how often it is tried again; -1 means without end.
        fixed: the wait before each try, or None if it grows.
        least: the first wait, if it grows.
        longest: the longest.
    """

    most: int = 0
    fixed: float | None = 0.0
    least: float = 0.0
    longest: float = 0.0

    def allows(self, count: int) -> bool:
        """Tell whether there is another try after ``count`` retries."""
        return self.most == _FOREVER or count < self.most


NO_RETRY: Final = RetryPolicy()


def declared_policy(declared: Mapping[str, Any], where: str) -> RetryPolicy:
    """Return the policy of ``@app.retry``, read as the worker reads it.

    Raises:
        AppError: the worker can't read it, and then loads none of the app's functions.
    """
    get = declared.get

    def span(key: str, default: float | None) -> float:
        text = get(key)
        if not text and default is not None:
            return default
        try:
            parsed = time.strptime(text or "", "%H:%M:%S")
        except (TypeError, ValueError):
            raise AppError(f"{where}: {key} of its retry policy is {quoted(text)}: {_FORM}") from None
        return float(parsed.tm_hour * 3600 + parsed.tm_min * 60 + parsed.tm_sec)

    return _policy(get("strategy"), get("max_retry_count"), ("fixed_delay", "exponential_backoff"), span, where)


def host_policy(app: Path) -> RetryPolicy | None:
    """Return the policy of host.json, for all functions that declare none; None if there is none.

    Raises:
        AppError: it can't be used.
    """
    where = "host.json"
    found = {key.casefold(): value for key, value in read_object(app / "host.json").entries}.get("retry")
    if found is None:
        return None
    if not isinstance(found, dict):
        raise AppError(f"{where}: retry is {as_json(found)}: write an object, {{ … }}")
    values = {key.casefold(): value for key, value in found.items()}

    def span(key: str, default: float | None) -> float:
        text = values.get(key.replace("_", ""))
        if text is None and default is not None:
            return default
        try:
            seconds = parse_timespan(text) if isinstance(text, str) else -1.0
        except ConfigurationError:
            seconds = -1.0
        if not 0 <= seconds < _LONGEST:
            raise AppError(f"{where}: {key} of retry is {as_json(text)}: {_FORM}")
        return seconds

    strategies = "fixeddelay", "exponentialbackoff"
    return _policy(str(values.get("strategy")).casefold(), values.get("maxretrycount"), strategies, span, where)


def _policy(
    strategy: object, most: object, known: tuple[str, str], span: Callable[[str, float | None], float], where: str
) -> RetryPolicy:
    try:
        number = int(str(most))
    except ValueError:
        raise AppError(f"{where}: the number of retries is {as_json(most)}: give a whole number, -1 or more") from None
    if number < _FOREVER:
        raise AppError(f"{where}: the number of retries is {number}: give a whole number, -1 or more")
    if strategy == known[0]:
        return RetryPolicy(most=number, fixed=span("delay_interval", None))
    if strategy == known[1]:
        least = span("minimum_interval", 0.0)
        return RetryPolicy(most=number, fixed=None, least=least, longest=max(least, span("maximum_interval", _LONGEST)))
    raise AppError(f"{where}: the strategy of its retry policy is {quoted(strategy)}: it must be {' or '.join(known)}")
