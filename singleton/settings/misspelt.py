"""Sections of options whose names are misspelt: nothing reads such a section, and the Functions host says nothing.

A misspelt option in the right section is refused with the nearest name as the options are read (``load_options``).
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from singleton.base.appsettings import normalised
from singleton.base.forks import importing
from singleton.base.invocation import warn_once
from singleton.base.words import did_you_mean
from singleton.settings.hostjson import read_object
from singleton.settings.options import SETTING_PREFIX, SingletonOptions, camel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_ROOTS: Final = ("azurefunctionsjobhost", "dequeueable")
"""Both have a section ``singleton`` in the app settings."""
_RIGHT: Final = tuple(f"{root}__singleton__" for root in _ROOTS)
_NEAR: Final = 0.84
"""The least likeness of a name: ``singelton`` has 0.89, ``singletons`` 0.95, and ``single`` 0.8."""


def misspelt_sections(app_dir: Path | None, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each section of host.json and each app setting with nearly the name of a section here."""
    if app_dir is not None:
        root = read_object(path := app_dir / "host.json")
        inside = (key for found in root.named("extensions") if isinstance(found, dict) for key in found)
        for key in (*root, *inside):  # "_singleton" and "//singleton" are meant to be off
            if key.casefold() != "singleton" and key[:1].isalnum() and _is_near(key):
                yield f'{path} has the section "{key}", which nothing reads{did_you_mean(key, ("singleton",))}'
    for spelt in settings:
        first, *others = re.split(r"[:_.]+", spelt)
        place = others[1:] if "extensions" in map(str.casefold, others[:1]) else others
        near = _is_near(first, *_ROOTS) and len(place) > 1 and _is_near(place[0])
        if near and not normalised(spelt).startswith(_RIGHT):
            known = [f"{SETTING_PREFIX}__{camel(field.name)}" for field in fields(SingletonOptions)]
            hint = did_you_mean(spelt, (*known, f"Dequeueable__Singleton__{others[-1]}"))
            yield f"app setting {spelt} has no effect{hint}"


def _is_near(name: str, *names: str) -> bool:
    with importing:
        from difflib import get_close_matches

    return bool(get_close_matches(name.casefold(), names or ("singleton",), cutoff=_NEAR))


def warn_of_misspelt_sections(app_dir: Path | None, settings: Mapping[str, str]) -> None:
    """Warn of each misspelt section, once in a process."""
    for said in misspelt_sections(app_dir, settings):
        warn_once("%s", said)
