"""Lock names made of any text: what DistributedLock calls safe names (M-7 to M-12)."""

from __future__ import annotations

import re
from typing import Final

from singleton.base.errors import ConfigurationError
from singleton.base.names import check_blob_name
from singleton.base.words import quoted
from singleton.layouts.naming import LONGEST_NAME, digest

_HASH: Final = re.compile(r"~[0-9a-f]{40}\Z")
_KEPT: Final = re.compile(r"[^A-Za-z0-9_./-]")


def safe_name(text: str) -> str:
    """Return a name that a lock may have: the text itself where it may be one, else what is left of it and a hash.

    Different texts have different names (those of 160 bits of SHA-256 apart), on the emulator and in the cloud alike.

    >>> safe_name("tenants/42"), safe_name("tenants/42/")
    ('tenants/42', 'tenants/42~3cfc6e4bb5b9b0e22b96eacd9833536a5cdd78cb')

    Raises:
        ConfigurationError: it is no text.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"text is {quoted(text)}: give a text, of which a name can be made")
    if _may_stay(text):
        return text
    return f"{_readable(text)}~{digest(text)}"


def _may_stay(text: str) -> bool:
    """Tell whether it is a name already, and not what this makes of another text."""
    try:
        check_blob_name(text)
    except ConfigurationError:
        return False
    return len(text) <= LONGEST_NAME and not _HASH.search(text)


def _readable(text: str) -> str:
    """Return a beginning of the name by which a person may know the text."""
    kept = _KEPT.sub("_", text[: LONGEST_NAME - 41]).split("/")[:100]
    return "/".join(filter(None, (part.rstrip(".") for part in kept)))
