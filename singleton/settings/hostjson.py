"""host.json, read as forgivingly as the Functions host reads it: comments and trailing commas are no errors.

Only ``read_object`` reads the file; its callers ask for a section, or for the options of the queues.

``functionTimeout`` is the time for which the Functions host lets an invocation run (H-32, H-85). After this time the
host restarts the worker, and every body in the worker ends. The reading follows the host: an app setting wins over
host.json (H-31), and without either the plan decides. With a value that is no time the host doesn't start at all, so
this module takes the value as no limit.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from singleton.base.appsettings import filled, section, setting
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import parse_timespan
from singleton.base.words import as_json
from singleton.settings.hostid import on_flex_consumption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_STRING: Final = r'"(?:\\.|[^"\\])*"'
_COMMENT: Final = rf"{_STRING}|//[^\n]*|/\*.*?\*/"
_LAST_COMMA: Final = rf"{_STRING}|,(?=\s*[}}\]])"
_WHOLE: Final = r"(?P<dec>[+-]?[0-9]{1,10})|(?:0x|&h|#)(?P<hex>[0-9a-f]{1,8})"


class _Object(dict[str, object]):
    """A JSON object that remembers names which were given more than once."""

    def __init__(self, entries: list[tuple[str, object]]) -> None:
        super().__init__(entries)
        self.entries = entries

    def named(self, name: str) -> list[object]:
        """Return every value of a name, in upper or lower case."""
        return [value for key, value in self.entries if key.casefold() == name.casefold()]


def _section(root: _Object, path: Path, name: str) -> list[tuple[str, object]]:
    """Return the keys and values of a top-level section: none without the section. Refuse what is no object.

    The case of the section's name does not matter. A repeated key is there as often as in the file.
    """
    found = root.named(name)
    if not found:
        return []
    if len(found) > 1:
        raise ConfigurationError(f'{path} has the section "{name}" {len(found)} times: merge them into one')
    if not isinstance(found[0], _Object):
        raise ConfigurationError(f"{path}: {name} is {as_json(found[0])}: write an object, {{ … }}")
    return found[0].entries


def singleton_entries(path: Path) -> list[tuple[str, object]]:
    """Return the keys and values of the section ``singleton``: none without the file or the section.

    Refuse a section inside ``extensions``, where the Functions host doesn't read it (H-31).
    """
    root = read_object(path)
    inside = [extensions for extensions in root.named("extensions") if isinstance(extensions, _Object)]
    for key in (key for extensions in inside for key in extensions if key.casefold() == "singleton"):
        raise ConfigurationError(
            f'{path} has the section "{key}" inside "extensions", where it has no effect: move it to the top level of '
            'the file, beside "extensions"'
        )
    return _section(root, path, "singleton")


def extension_values(app: Path | None, settings: Mapping[str, str], extension: str) -> dict[str, tuple[str, object]]:
    """Return source and value of the options of an extension, such as ``extensions.queues``, by name in lower case.

    An app setting stands over the host.json in the folder ``app`` (H-31), which must be readable. To the host null is
    an empty text. An object or a list in place of a value leaves the default.
    """
    found: dict[str, tuple[str, object]] = {}
    roots = [] if app is None else read_object(app / "host.json").named("extensions")
    for name, options in (entry for root in roots if isinstance(root, _Object) for entry in root.entries):
        if name.casefold() == extension.casefold() and isinstance(options, _Object):
            found |= {
                key.casefold(): (f"host.json: extensions.{extension}.{key}", value)
                for key, value in options.entries
                if not isinstance(value, dict | list)
            }
    for spelt, key, text in section(settings, f"AzureFunctionsJobHost__extensions__{extension}"):
        found[key] = f"app setting {spelt}", text
    return found


def wants_opentelemetry(app: Path | None, settings: Mapping[str, str]) -> bool:
    """Tell whether the app's telemetry is OpenTelemetry: by its ``telemetryMode``, over which an app setting stands."""
    mode: object = filled(settings, "AzureFunctionsJobHost__telemetryMode")
    if mode is None and app is not None:
        mode = next(iter(read_object(app / "host.json").named("telemetryMode")), None)
    return isinstance(mode, str) and mode.strip().casefold() == "opentelemetry"


def as_text(value: object) -> str | None:
    """Return a value as the host's configuration has it, which knows texts only (H-31, H-94).

    None for an object, a list or null.

    >>> as_text(4.0), as_text(True), as_text("0x4")
    ('4', 'True', '0x4')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, str | int | float) else None


def whole_number(value: object) -> int | None:
    """Return the whole number that .NET reads in a value: decimal, or hexadecimal behind ``0x``, ``&h`` or ``#``.

    >>> whole_number(4.0), whole_number("0x1F"), whole_number("4.0")
    (4, 31, None)
    """
    match = re.fullmatch(_WHOLE, (as_text(value) or "").strip(), flags=re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    return int(match["dec"]) if match["dec"] else int(match["hex"], 16)


def read_object(path: Path) -> _Object:
    """Return the object in a settings file; a missing file counts as empty. ``ConfigurationError``: something else."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return _Object([])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from error
    try:
        root = _loaded(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigurationError(f"{path} is not valid JSON at {where}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(root, _Object):
        raise ConfigurationError(f"{path} has no JSON object in it: write an object, {{ … }}")
    return root


def _loaded(text: str) -> object:
    """Return the value of the text: as JSON, else with blanks for comments and last commas. Positions stay the same."""
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError:
        for blank in (_COMMENT, _LAST_COMMA):
            text = re.sub(blank, _blanks_but_for_strings, text, flags=re.DOTALL)
        return json.loads(text, object_pairs_hook=_Object)


def _blanks_but_for_strings(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


_SETTING: Final = "AzureFunctionsJobHost__functionTimeout"
_ON_CONSUMPTION: Final = 300.0
_ELSEWHERE: Final = 1800.0


class FunctionTimeout(NamedTuple):
    """The limit in seconds, and where it comes from, in words."""

    seconds: float
    source: str


def function_timeout(app_dir: Path | None, settings: Mapping[str, str]) -> FunctionTimeout | None:
    """Return the limit of the app's invocations; None: no limit. ``app_dir`` is the folder that has host.json.

    ``ConfigurationError``: host.json can't be read.
    """
    given, source = given_timeout(app_dir, settings)
    if given is None or not str(given).strip():
        return FunctionTimeout(_ON_CONSUMPTION if on_consumption(settings) else _ELSEWHERE, "the default of its plan")
    try:
        seconds = parse_timespan(str(given))
    except ConfigurationError:  # "-1", which is no limit, or what keeps the host from starting
        return None
    return FunctionTimeout(seconds, source) if seconds > 0 else None


def given_timeout(app_dir: Path | None, settings: Mapping[str, str]) -> tuple[object, str]:
    """Return the value of ``functionTimeout``, and the source in words; None: no value."""
    if (text := setting(settings, _SETTING)) is not None:
        return text, f"app setting {_SETTING}"
    found = [] if app_dir is None else read_object(app_dir / "host.json").named("functionTimeout")
    return (found[-1] if found else None), "host.json"


def on_consumption(settings: Mapping[str, str]) -> bool:
    """Tell whether the host takes this for the Consumption plan; Flex Consumption has the default of other plans."""
    if on_flex_consumption(settings):
        return False
    if (filled(settings, "WEBSITE_SKU") or "").lower() == "dynamic":
        return True
    elsewhere = filled(settings, "WEBSITE_INSTANCE_ID") or filled(settings, "MANAGED_ENVIRONMENT")
    return filled(settings, "CONTAINER_NAME") is not None and elsewhere is None
