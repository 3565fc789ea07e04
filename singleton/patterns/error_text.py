"""What is kept of an error, with its message, in a database or a blob."""

from __future__ import annotations

import re
from typing import Final

_ERROR: Final = 1000
"""Characters of an error that are kept with its message."""
_CREDENTIALS: Final = re.compile(r"(?<=://)\S+(?=@)|(?<=[?&]sig=)[^&\s]+|(?<=(?i:password)=)[^;&\s]+")


def told(error: BaseException) -> str:
    """Return what is kept of an error: its kind and its text, cut short, without the credentials of URLs."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's code
        text = ""
    return storable(_CREDENTIALS.sub("***", f"{type(error).__name__}: {text}")[:_ERROR])


def storable(text: str) -> str:
    """Return a text without what not every database takes: no note of a failure may fail for it."""
    return text.encode(errors="replace").decode().replace("\0", "?")
