"""Reads the page of a listing that the blob service gives, in XML."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from singleton.stores.lock_keeping import Listed, Page
from singleton.stores.protocol import StoreFailure
from singleton.stores.refusals import clock, date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from xml.etree.ElementTree import Element

    from singleton.stores.protocol import LeaseState


def read_page(body: bytes, headers: Mapping[str, str]) -> Page:
    """Return the page. ``StoreFailure``: the answer is no page."""
    try:
        root = ET.fromstring(body)  # noqa: S314 - expat expands nothing without end
        entries = tuple(_listed(blob) for blob in _blobs(root))
    except (ET.ParseError, ValueError, LookupError):  # or the encoding is unknown
        failure = StoreFailure(detail="an answer that is no listing: it is not from the storage service")
    else:
        at = clock(headers)
        return Page(entries=entries, marker=root.findtext("NextMarker") or None, at=time.time() if at is None else at)
    raise failure


def _blobs(root: Element) -> Iterable[Element]:
    if root.tag != "EnumerationResults":
        raise ValueError(root.tag)
    return root.iterfind("Blobs/Blob")


def _listed(blob: Element) -> Listed:
    def told(key: str) -> str:
        return blob.findtext(f"Properties/{key}") or ""

    return Listed(
        name=_name(blob.find("Name")),
        etag=in_quotes(told("Etag")),
        lease=cast("LeaseState", told("LeaseState")),
        modified=int(date(told("Last-Modified"))),
        metadata={each.tag: each.text or "" for each in blob.iterfind("Metadata/*") if each.tag != "Encrypted"},
        size=int(told("Content-Length") or 0),
        endless=told("LeaseDuration") == "infinite",
    )


def _name(element: Element | None) -> str:
    if element is None or not element.text:
        raise ValueError("a blob without a name")
    return unquote(element.text) if element.get("Encoded") == "true" else element.text


def in_quotes(etag: str) -> str:
    """Return an ETag as conditions have it: a listing leaves its quotes out."""
    return etag if etag.endswith('"') else f'"{etag}"'
