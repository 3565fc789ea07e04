"""The parts of ``host.json`` that the simulated triggers obey: the schema's version and ``extensions.queues``."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.host.app.errors import SettingsError
from singleton.base.timespan import parse_timespan
from singleton.base.words import quoted
from singleton.settings.appsettings import section, setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Encoding = Literal["base64", "none"]
_SECTION: Final = "AzureFunctionsJobHost__extensions__queues"
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How queue triggers read their queues (H-33). Durations are seconds.

    Attributes:
        batch_size: messages asked for in one request.
        new_batch_threshold: how few must be in flight before the next request.
        max_polling_interval: longest wait between two requests to an empty queue.
        visibility_timeout: how long a message stays invisible after its function failed.
        max_dequeue_count: how often a message is tried before it goes to the poison queue.
        message_encoding: how the bodies are encoded in the queue.
    """

    batch_size: int = 16
    new_batch_threshold: int = 8
    max_polling_interval: float = 60.0
    visibility_timeout: float = 0.0
    max_dequeue_count: int = 5
    message_encoding: Encoding = "base64"


def read_json(path: Path) -> Any:
    """Return what a settings file holds.

    Raises:
        SettingsError: it can't be read, or is no JSON.
    """
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path.name} can't be read: {error}") from error


def read_host_json(app: Path) -> dict[str, Any]:
    """Return the app's ``host.json``; a missing file is an empty one (H-30).

    Raises:
        SettingsError: it is no JSON object, or its version is not "2.0".
    """
    path = app / "host.json"
    if not path.is_file():
        return {"version": "2.0"}
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise SettingsError("host.json must be a JSON object")
    if raw.get("version") != "2.0":
        raise SettingsError(f'host.json: "version" is {quoted(raw.get("version"))}; it must be "2.0"')
    return raw


def queue_options(host_json: Mapping[str, Any], settings: Mapping[str, str]) -> QueueOptions:
    """Return the options of ``extensions.queues``; app settings of the same names win (H-31).

    Raises:
        SettingsError: a value is out of range.
    """
    values = _values(host_json, settings)
    defaults = QueueOptions()
    batch_size = _integer(values, "batchSize", defaults.batch_size, 1, 32)
    processors = 1 if (setting(settings, "WEBSITE_SKU") or "") == "Dynamic" else os.cpu_count() or 1
    encoding = values.get("messageencoding", ("", defaults.message_encoding))
    spelt = encoding[1].lower() if isinstance(encoding[1], str) else ""
    if spelt not in {"base64", "none"}:
        raise SettingsError(f'{encoding[0]} is {quoted(encoding[1])}: give "base64" or "none"')
    return QueueOptions(
        batch_size=batch_size,
        new_batch_threshold=_integer(values, "newBatchThreshold", batch_size // 2 * processors, 0, _MOST),
        max_polling_interval=_duration(values, "maxPollingInterval", defaults.max_polling_interval, 0.1),
        visibility_timeout=_duration(values, "visibilityTimeout", defaults.visibility_timeout, 0.0),
        max_dequeue_count=_integer(values, "maxDequeueCount", defaults.max_dequeue_count, 1, _MOST),
        message_encoding="none" if spelt == "none" else "base64",
    )


def _values(host_json: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """Return by lower-case key where each value was found, and the value."""
    found: dict[str, tuple[str, Any]] = {}
    raw: Any = host_json
    for part in ("extensions", "queues"):
        raw = next((value for key, value in raw.items() if key.lower() == part), {}) if isinstance(raw, dict) else {}
    for key, value in (raw if isinstance(raw, dict) else {}).items():
        found[key.lower()] = (f"host.json: extensions.queues.{key}", value)
    for spelt, key, text in section(settings, _SECTION):
        found[key.lower()] = (f"the app setting {spelt}", text)
    return found


def _integer(values: Mapping[str, tuple[str, Any]], key: str, default: int, least: int, most: int) -> int:
    where, value = values.get(key.lower(), ("", default))
    try:
        if isinstance(value, bool | float):
            raise ValueError  # noqa: TRY004, TRY301 - the message below is for both
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if not least <= number <= most:
        limits = f"{least} or more" if most == _MOST else f"{least} to {most}"
        raise SettingsError(f"{where} is {quoted(value)}: give a whole number, {limits}")
    return number


def _duration(values: Mapping[str, tuple[str, Any]], key: str, default: float, least: float) -> float:
    where, value = values.get(key.lower(), ("", None))
    if value is None:
        return default
    try:
        seconds = parse_timespan(value) if isinstance(value, str) else -1.0
    except ValueError as error:
        raise SettingsError(f"{where} is {quoted(value)}: {error}") from error
    if seconds < least:
        raise SettingsError(f'{where} is {quoted(value)}: give a time span "hh:mm:ss", {least:g} seconds or more')
    return seconds
