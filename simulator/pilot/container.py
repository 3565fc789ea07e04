"""The container of a pilot: made with a mark, and deleted at the end; and what earlier pilots have left.

Only a container whose name begins with ``PREFIX``, and that has the mark, is ever deleted.
"""

from __future__ import annotations

import re
import time
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from simulator.report.timeline.build import careful
from singleton.locking.holder import answered
from singleton.runtime.accounts.stores import way_to
from singleton.settings.connection import parse_connection_string
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from singleton.settings.connection import StorageAccount

PREFIX: Final = "singleton-pilot-"
MARK: Final = "singletonpilot"
"""Metadata of the container: when its pilot has ended at the latest, in seconds since 1970."""
LATE: Final = 3600.0
"""Seconds after this time from which a container is a leftover."""
_PATIENCE: Final = 30.0
_CALL: Final = 10.0
"""Seconds of one try."""
_LONGEST: Final = 2**22
_IP: Final = re.compile(
    r"\('[0-9A-Fa-f:.]+', \d+(?:, \d+, \d+)?\)|(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\d.]*\d)"
)
"""An address as it stands in errors of connections."""
_GONE: Final = ("ContainerNotFound", "ContainerBeingDeleted")


_asked = partial(answered, call=_CALL, answer=_PATIENCE)


async def make_container(account: StorageAccount, name: str, ends: float) -> None:
    """Make the container, with the mark. ``StoreFailure``: it can't be made."""
    async with aclosing(way_to(account, f"container {name!r}")) as way:
        headers = {f"x-ms-meta-{MARK}": f"{ends:.0f}"}
        await within(_PATIENCE, way.ask("PUT", f"{way.root}/{name}", "restype=container", headers, 201))


async def delete_container(account: StorageAccount, name: str) -> None:
    """Delete the container of a pilot, if it is there. ``StoreFailure``: it can't be deleted, or has no mark."""
    async with aclosing(way_to(account, f"container {name!r}")) as way:
        place, query = f"{way.root}/{name}", "restype=container"
        try:
            found = await _asked(lambda: way.ask("HEAD", place, query, {}, 200))
            marked = name.startswith(PREFIX) and f"x-ms-meta-{MARK}" in found.headers.lowered
            if marked:
                await _asked(lambda: way.ask("DELETE", place, query, {}, 202))
        except StoreFailure as failure:
            if failure.code not in _GONE:
                raise
            return
    if not marked:
        raise StoreFailure(detail=f"{name} is not the container of a pilot: it stays", source="unsent")


async def answers(account: StorageAccount, name: str) -> bool:
    """Tell whether the storage answers a request for a container, whatever it says."""
    async with aclosing(way_to(account, f"container {name!r}")) as way:
        try:
            await _asked(lambda: way.ask("HEAD", f"{way.root}/{name}", "restype=container", {}, 200))
        except StoreFailure as failure:
            return failure.status is not None
    return True


async def leftovers(account: StorageAccount) -> list[str]:
    """Return the containers of pilots that must have ended. ``StoreFailure``: they can't be listed."""
    async with aclosing(way_to(account, "containers")) as way:
        query = f"comp=list&prefix={PREFIX}&include=metadata"
        page = await _asked(lambda: way.ask("GET", f"{way.root}/", query, {}, 200, most=_LONGEST))
    try:
        listed = ET.fromstring(page.body)  # noqa: S314 - expat expands nothing without end
    except ET.ParseError:
        raise StoreFailure(detail="an answer that is no listing: it is not from the storage service") from None
    found = []
    for each in listed.iterfind("Containers/Container"):
        name, ends = each.findtext("Name") or "", each.findtext(f"Metadata/{MARK}") or ""
        if name.startswith(PREFIX) and ends.isdecimal() and time.time() > int(ends) + LATE:
            found.append(name)
    return found


class Anonymous:
    """Takes the account's name, address and secrets out of texts."""

    def __init__(self, account: StorageAccount) -> None:
        host = urlsplit(account.endpoint).netloc
        secrets = [(account.account_url or "").partition("?")[2]]
        if account.connection_string is not None:
            told = parse_connection_string(account.connection_string, "the connection string")
            secrets += [told.key, told.signature]
        self._secrets = [each for each in secrets if each]
        names = [host, account.name or host.partition(".")[0]]
        words = "|".join(re.escape(name) for name in dict.fromkeys(names) if name)
        self._names = re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        """Return the text with ``account-1`` in place of the account."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _IP.sub("account-1", self._names.sub("account-1", careful(text)))

    def told(self, value: Any) -> Any:
        """Return data with ``account-1`` in place of the account in each text."""
        if isinstance(value, dict):
            return {name: self.told(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.told(each) for each in value]
        return self(value) if isinstance(value, str) else value
