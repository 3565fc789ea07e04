"""Messages that failed too often, put aside for an operator. Runs on the lock thread."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from singleton.base.state import marked
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered, if_present
from singleton.patterns.ordered.entries import Entry, entries_in
from singleton.patterns.ordered.protocol import LOG_KEY
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import header_safe

if TYPE_CHECKING:
    from singleton.patterns.ordered.protocol import Names
    from singleton.patterns.ordered.service import Service
    from singleton.runtime.registry import Registry
    from singleton.stores.lock_keeping import BlobStore

_ERROR: str = "Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideMessage:
    """A message that was put aside.

    Attributes:
        key: the key.
        body: the body; the bytes of a body which can't be read here.
        error: the error of the last attempt.
        at: when the message was put aside, seconds since 1970.
        name: the blob with the message.
    """

    key: str
    body: Any
    error: str
    at: int
    name: str


async def put_aside(store: BlobStore, names: Names, spot: str, entry: Entry, why: str) -> str:
    """Keep a message that is not to be tried any more, once however often it is asked for; return where."""
    name = f"{names.asides}{spot}/{entry.sender}-{entry.number}"
    said = {LOG_KEY: "aside", _ERROR: header_safe(why)}

    async def asked() -> None:
        if await store.start_log(name, said) or not (await store.tail(name, 0, 2**23)).blocks:
            await store.append(name, entry.framed())

    try:
        await answered(asked)
    except StoreFailure as failure:
        raise storage_error(name, failure, what="log") from failure
    return name


async def that_is_aside(service: Service, registry: Registry) -> list[AsideMessage]:
    """Return the messages that are put aside."""
    store, found = service.store(registry), list[AsideMessage]()
    async for blob in service.listed(store, service.names.asides):
        entry = await entry_aside(store, blob.name)
        if entry is not None:
            error = marked(blob.metadata, _ERROR) or ""
            body = _readable(entry)
            found.append(AsideMessage(key=entry.key, body=body, error=error, at=blob.modified, name=blob.name))
    return found


def _readable(entry: Entry) -> Any:
    try:
        return entry.value
    except (ValueError, RecursionError):
        return entry.body


async def entry_aside(store: BlobStore, name: str) -> Entry | None:
    """Return the entry in this blob; None: the blob or its entry is gone."""
    tail = await if_present(lambda: store.tail(name, 0, 2**23), name, what="log")
    return None if tail is None else next(entries_in(tail.body, 0, name), None)


def sent_again(entry: Entry, name: str) -> Entry:
    """Return the entry as it is sent again from this blob: once, however often that is asked for."""
    return replace(entry, sender=hashlib.sha256(name.encode()).hexdigest()[:16], number=1)


async def remove_aside(store: BlobStore, name: str) -> None:
    """Delete what was put aside."""

    async def asked() -> None:
        await store.drop(name, (await store.read(name)).etag)

    await if_present(asked, name, what="log")
