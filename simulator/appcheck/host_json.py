"""What concerns the whole app: host.json, its options, ``functionTimeout``, the host id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simulator.appcheck.finding import Place
from simulator.appcheck.queue_triggers import check_queue_options
from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import place_in_host, place_of_setting
from simulator.extensions import unknown_bindings
from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.base.timespan import FOREVER, parse_timespan
from singleton.base.words import as_json, listed
from singleton.settings.hostid import on_flex_consumption
from singleton.settings.hostjson import given_timeout, on_consumption, read_object
from singleton.settings.misspelt import misspelt_sections
from singleton.settings.options import load_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.appcheck.checked_app import AppSettings, Subject
    from simulator.appcheck.finding import Finding

_FILE: Final = "host.json"
_LONGEST_ID: Final = 32
_MOST_ON_CONSUMPTION: Final = 600.0


def check_host(app: AppSettings) -> Iterator[Finding]:
    """Yield what is wrong with the configuration of the app."""
    if not app.known:
        yield RULES["settings-not-known"].broken(
            "no app settings were found, so AzureWebJobsStorage and the connections of triggers were not checked. Give "
            "them in local.settings.json, in the environment or with --settings"
        )
    try:
        found = read_object(app.folder / _FILE) if app.folder is not None else {}
    except ConfigurationError as error:
        line = re.search(r"line (\d+)", str(error))
        yield RULES["host-json"].broken(_from_folder(str(error), app), place=Place(_FILE, int(line[1]) if line else 1))
        return
    if found and found.get("version") != "2.0":
        said = as_json(found["version"]) if "version" in found else "missing"
        yield RULES["host-json"].broken(
            f'host.json: "version" is {said}: it must be "2.0", or the host does not start', place=Place(_FILE, 1)
        )
    yield from _options(app)
    yield from _misspelt(app)
    yield from _function_timeout(app)
    yield from check_queue_options(app)
    yield from _host_id(app)


def check_bundle(app: AppSettings, subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield whether the host lacks the extensions of a trigger or a binding."""
    if app.folder is None:
        return
    try:
        kinds = unknown_bindings(app.folder, app.values, (each.type for one in subjects for each in one.bindings))
    except ConfigurationError as error:
        if "extensionBundle" in str(error):  # what can't be read is a finding of its own
            yield RULES["host-json"].broken(str(error), place=place_in_host(app.folder, "extensionBundle"))
        return
    if kinds:
        yield RULES["no-extension-bundle"].broken(
            f"host.json has no extensionBundle, which brings {listed(kinds)}: the host runs none of these functions",
            place=Place(_FILE, 1),
        )


def _options(app: AppSettings) -> Iterator[Finding]:
    try:
        options = load_options(app.folder, app.values)
    except ConfigurationError as error:
        message = _from_folder(str(error), app)
        key = re.search(r"singleton\.(\w+)", message)
        if "app setting" in message.partition(":")[0]:
            place = _place_of_setting(app, message)
        else:
            place = place_in_host(app.folder, key[1] if key else "singleton")
        yield RULES["option-refused"].broken(message, place=place)
        return
    if not options.enabled:
        where = app.sources.get("enabled", "the option enabled")
        yield RULES["locks-off"].broken(
            f"{where} is false: guarded functions run without a lock. Remove it, unless it is meant so",
            place=place_in_host(app.folder, "singleton", "enabled")
            if where.startswith(_FILE)
            else _place_of_setting(app, where),
        )


def _misspelt(app: AppSettings) -> Iterator[Finding]:
    for said in misspelt_sections(app.folder, app.values):
        key = re.search(r'has the section "([^"]+)"', said)
        place = place_in_host(app.folder, key[1]) if key else _place_of_setting(app, said)
        yield RULES["section-misspelt"].broken(_from_folder(said, app), place=place)


def _function_timeout(app: AppSettings) -> Iterator[Finding]:
    """Yield a value of ``functionTimeout`` with which the host does not start (H-85)."""
    given, source = given_timeout(app.folder, app.values)
    consumption = on_consumption(app.values)
    if given in (None, "", [], {}) or (str(given).strip() == "-1" and not consumption):
        return
    try:
        seconds = parse_timespan(given) if isinstance(given, str) else 0.0
    except ConfigurationError:
        seconds = 0.0
    if not 1.0 <= seconds <= (_MOST_ON_CONSUMPTION if consumption else FOREVER):
        allowed = "from 1 second to 10 minutes" if consumption else "of at least 1 second, or -1 for no limit"
        in_file = source.startswith(_FILE)
        yield RULES["function-timeout-refused"].broken(
            f'{source}: functionTimeout is {as_json(given)}: give a time span "hh:mm:ss", {allowed}. The host does '
            "not start",
            place=place_in_host(app.folder, "functionTimeout") if in_file else _place_of_setting(app, source),
        )


def _host_id(app: AppSettings) -> Iterator[Finding]:
    """Say where the host cuts the app's name, by which locks are kept (H-2, H-6)."""
    values = app.values
    site, slot = filled(values, "WEBSITE_SITE_NAME") or "", filled(values, "WEBSITE_SLOT_NAME") or ""
    name = site if slot.casefold() in ("", "production") else f"{site}-{slot}"
    explicit = app.options.host_id or filled(values, "AzureFunctionsWebHost__hostid")
    if len(name) > _LONGEST_ID and not explicit and not on_flex_consumption(values):
        yield RULES["host-id-cut"].broken(
            f"the app's name {name!r} has {len(name)} characters, and the host id takes the first {_LONGEST_ID}: "
            "another app or slot whose name begins so has the same locks. Set hostId in host.json's singleton section",
            place=_place_of_setting(app, "WEBSITE_SITE_NAME"),
        )


def _place_of_setting(app: AppSettings, text: str) -> Place | None:
    """Return the line of the first app setting that the text names, where these settings come from a file."""
    names = re.findall(r"\w+(?:[:_.]+\w+)*", text)
    return next((found for name in names if (found := place_of_setting(app.file, app.folder, name))), None)


def _from_folder(message: str, app: AppSettings) -> str:
    """Return the message with files named from the app's folder."""
    return message.replace(f"{app.folder}/", "")
