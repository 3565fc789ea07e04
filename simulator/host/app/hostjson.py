"""The parts of ``host.json`` that the simulated host obeys: the schema's version, ``functions``, extensions, retries.

Values are read as .NET reads values (H-94): the host's configuration has texts only: ``4.0`` and ``"0x4"`` are 4, and
a plain number as a time span means days. The extensions are queues, http (the route prefix) and Service Bus:
https://learn.microsoft.com/azure/azure-functions/functions-bindings-http-webhook and
https://learn.microsoft.com/azure/azure-functions/functions-bindings-service-bus (host.json settings). A retry policy
for functions that fail is in ``retry``, or in ``@app.retry`` of a function (H-82).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import AppError
from singleton.base.appsettings import section, setting
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, parse_timespan
from singleton.base.words import as_json, quoted
from singleton.defer.trigger_queue import Encoding, max_dequeue_count, message_encoding
from singleton.settings.hostid import in_development
from singleton.settings.hostjson import as_text, extension_values, read_object, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


_MOST: Final = 2**31 - 1
_IN_DEVELOPMENT: Final = 2.0  # maxPollingInterval's default in development (H-90)
_TIMEOUT_SETTING: Final = "AzureFunctionsJobHost__functionTimeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How queue triggers read their queues (H-33). Durations are seconds."""

    batch_size: int = 16  # messages asked for in one request
    new_batch_threshold: int = 8  # the next request is sent when so few messages are in flight
    max_polling_interval: float = 60.0  # longest wait between two requests to an empty queue
    visibility_timeout: float = 0.0  # how long a message stays invisible after its function failed
    max_dequeue_count: int = 5  # how often a message is tried before it goes to the poison queue
    message_encoding: Encoding = "base64"  # how the bodies are encoded in the queue


def check_version(app: Path) -> None:
    """Raise ``ConfigurationError`` if host.json can't be read, or its version is not "2.0"."""
    found = read_object(app / "host.json")
    version = found.get("version")
    if found and version != "2.0":  # a missing file is an empty one (H-30)
        raise ConfigurationError(f'host.json: "version" is {as_json(version)}: it must be "2.0"')


def queue_options(app: Path, settings: Mapping[str, str]) -> QueueOptions:
    """Return the options of ``extensions.queues``; app settings of the same names win (H-31).

    Raises:
        ConfigurationError: a value is out of range, and the host does not start.
    """
    values = extension_values(app, settings, "queues")
    defaults = QueueOptions()
    longest = _IN_DEVELOPMENT if in_development(settings) else defaults.max_polling_interval
    batch_size = _integer(values, "batchSize", defaults.batch_size, 1, 32)
    processors = 1 if (setting(settings, "WEBSITE_SKU") or "") == "Dynamic" else os.cpu_count() or 1
    return QueueOptions(
        batch_size=batch_size,
        new_batch_threshold=_integer(values, "newBatchThreshold", batch_size // 2 * processors, 0, _MOST),
        max_polling_interval=_duration(values, "maxPollingInterval", longest, 0.1),
        # The queue's client drops fractions of a second. With a negative one, messages stay invisible for their time.
        visibility_timeout=float(int(_duration(values, "visibilityTimeout", defaults.visibility_timeout, -FOREVER))),
        max_dequeue_count=max_dequeue_count(app, settings),
        message_encoding=message_encoding(app, settings),
    )


def function_timeout(app: Path, settings: Mapping[str, str]) -> float | None:
    """Return how long an invocation may take, in seconds; None for no limit (H-32, H-85).

    Raises:
        ConfigurationError: the real host does not start with such a value.
    """
    consumption = (setting(settings, "WEBSITE_SKU") or "") == "Dynamic"
    found = {key.casefold(): value for key, value in read_object(app / "host.json").entries}
    where, value = "host.json: functionTimeout", found.get("functiontimeout")
    if (override := setting(settings, _TIMEOUT_SETTING)) is not None:
        where, value = f"app setting {_TIMEOUT_SETTING}", override
    if value in (None, "", [], {}):
        return 300.0 if consumption else 1800.0
    if str(value).strip() == "-1" and not consumption:
        return None
    most = 600.0 if consumption else FOREVER
    try:
        seconds = parse_timespan(value) if isinstance(value, str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= most:
        limits = "1 second to 10 minutes" if consumption else "1 second or more, or -1 for no limit"
        raise ConfigurationError(f'{where} is {as_json(value)}: give a time span "hh:mm:ss", {limits}')
    return seconds


def _integer(values: Mapping[str, tuple[str, object]], key: str, default: int, least: int, most: int) -> int:
    where, value = values.get(key.lower(), ("", default))
    number = whole_number(value)
    if number is None or not least <= number <= most:
        limits = f"{least} or more" if most == _MOST else f"{least} to {most}"
        raise ConfigurationError(f"{where} is {as_json(value)}: give a whole number, {limits}")
    return number


def _duration(values: Mapping[str, tuple[str, object]], key: str, default: float, least: float) -> float:
    where, value = values.get(key.lower(), ("", None))
    if not where:
        return default
    try:
        seconds = parse_timespan(as_text(value) or "", days=True)
    except ValueError as error:
        raise ConfigurationError(f"{where} is {as_json(value)}: {error}") from error
    if seconds < least:
        raise ConfigurationError(f'{where} is {as_json(value)}: give a time span "hh:mm:ss", {least:g} seconds or more')
    return seconds


def allowed_functions(app: Path, settings: Mapping[str, str]) -> frozenset[str] | None:
    """Return the functions that ``functions`` allows to run, in lower case; None: all (H-86).

    Raises:
        ConfigurationError: host.json can't be used.
    """
    listed = next((value for key, value in read_object(app / "host.json").items() if key.lower() == "functions"), None)
    entries = dict(enumerate(listed)) if isinstance(listed, list) else listed if isinstance(listed, dict) else {}
    names = {str(index): "" if value is None else as_text(value) for index, value in entries.items()}
    names |= {key: text for _, key, text in section(settings, "AzureFunctionsJobHost__functions")}
    return frozenset(name.lower() for name in names.values() if name is not None) if names else None


_PREFIX: Final = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusOptions:
    """How Service Bus triggers receive."""

    max_concurrent_calls: int = 16  # messages of one function that one host processes at a time
    max_renewal: float = 300.0  # seconds for which a message's lock is renewed at most while the function runs


def route_prefix(app: Path, settings: Mapping[str, str]) -> str:
    """Return the prefix of the routes of HTTP triggers: ``api`` unless host.json has another."""
    _, value = extension_values(app, settings, "http").get("routeprefix", ("", _PREFIX))
    return (as_text(value) or "").strip("/")


def bus_options(app: Path, settings: Mapping[str, str]) -> BusOptions:
    """Return the options of ``extensions.serviceBus``; app settings of the same names win (H-31).

    Raises:
        ConfigurationError: a value can't be used.
    """
    values = extension_values(app, settings, "serviceBus")
    defaults = BusOptions()
    number = _integer(values, "maxConcurrentCalls", defaults.max_concurrent_calls, 1, _MOST)
    renewal = _duration(values, "maxAutoLockRenewalDuration", defaults.max_renewal, 0.0)
    return BusOptions(max_concurrent_calls=number, max_renewal=renewal)


_FOREVER: Final = -1
_LONGEST: Final = 2147483647.0
_FORM: Final = 'give a text "hh:mm:ss" up to 23:59:59, for example "00:00:05"'


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed function is tried again, and after how many seconds."""

    most: int = 0  # how often the function is tried again; -1 means without end
    fixed: float | None = 0.0  # the wait before each try, or None if the wait grows
    least: float = 0.0  # the first wait, if the wait grows
    longest: float = 0.0

    def allows(self, count: int) -> bool:
        """Tell whether another try follows after ``count`` retries."""
        return self.most == _FOREVER or count < self.most


NO_RETRY: Final = RetryPolicy()


def declared_policy(declared: Mapping[str, Any], where: str) -> RetryPolicy:
    """Return the policy of ``@app.retry``, read as the worker reads it.

    Raises:
        AppError: the worker can't read it, and then loads none of the app's functions.
    """
    get = declared.get

    def span(key: str) -> float:
        text = get(key)
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
    if not found or not isinstance(found, dict | list):  # to the host no policy
        return None
    values = {key.casefold(): value for key, value in found.items()} if isinstance(found, dict) else {}

    def span(key: str) -> float:
        text = values.get(key.replace("_", ""))
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
    strategy: object, most: object, known: tuple[str, str], span: Callable[[str], float], where: str
) -> RetryPolicy:
    try:
        number = int(str(most))
    except ValueError:
        raise AppError(f"{where}: the number of retries is {as_json(most)}: give a whole number, -1 or more") from None
    if number < _FOREVER:
        raise AppError(f"{where}: the number of retries is {number}: give a whole number, -1 or more")
    if strategy == known[0]:
        return RetryPolicy(most=number, fixed=span("delay_interval"))
    if strategy == known[1]:
        least = span("minimum_interval")  # neither interval has a default
        return RetryPolicy(most=number, fixed=None, least=least, longest=max(least, span("maximum_interval")))
    raise AppError(f"{where}: the strategy of its retry policy is {quoted(strategy)}: it must be {' or '.join(known)}")
