"""Names of containers and blobs, as the storage service allows them (S-5, M-14)."""

from __future__ import annotations

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted


def check_container_name(name: str) -> str:
    """Return the container's name (S-5). ``ConfigurationError``, with the broken rule: the service refuses the name."""
    return _checked("container", name, _broken_container_rule(name))


def _broken_container_rule(name: object) -> str | None:
    if not isinstance(name, str):
        return "is not a text"
    if not 3 <= len(name) <= 63:
        return f"has {len(name)} characters: it must have from 3 to 63"
    if not all(char.isascii() and (char.islower() or char.isdigit() or char == "-") for char in name):
        return "may have only lower-case letters a-z, digits and dashes"
    if name.startswith("-") or name.endswith("-"):
        return "must begin and end with a letter or digit"
    return "may not have two dashes in a row" if "--" in name else None


def check_blob_name(name: str) -> str:
    """Return the blob's name if the service allows the name and keeps every character of the name (S-5, M-14).

    Raises:
        ConfigurationError: the service refuses or changes the name; the message says which rule is broken.
    """
    return _checked("lock", name, _broken_blob_rule(name))


def _checked(kind: str, name: str, broken: str | None) -> str:
    if broken:
        raise ConfigurationError(f"{kind} name {quoted(name)} {broken}")
    return name


def _broken_blob_rule(name: object) -> str | None:
    if not isinstance(name, str):
        return "is not a text"
    if not 1 <= len(name) <= 1024:
        return f"has {len(name)} characters: it must have from 1 to 1,024"
    if "\\" in name:
        return "has a backslash, which the service reads as a slash: write /"
    segments = name.split("/")
    if len(segments) > 254:
        return f"has {len(segments)} segments between slashes: at most 254 are allowed"
    if not segments[-1] or any(segment.endswith(".") for segment in segments):
        return "may not end in a slash, and none of its segments may end in a dot: the service drops these"
    if has_unsendable(name):
        return "has a control character, half of a surrogate pair, or a noncharacter: XML can't carry these"
    return None


def has_unsendable(name: str) -> bool:
    """Tell whether a name has a character without a form in XML: the service lists names as XML."""
    return any(
        char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff" or char in "\ufffe\uffff"
        for char in name
    )
