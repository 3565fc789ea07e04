"""Requests to a storage account, each sent once.

Requests go over connections of our own (``http/``), through the proxy of the environment where one is named. No
redirect is followed, no ``~/.netrc`` is read, no cookies are kept.

Every request has an id, which the service repeats. An answer with another id is refused: a late or unasked answer would
else count for the next request on its connection.

An error names the host and never the URL, which may hold a signature. No frame in the traceback has the request.
"""

from __future__ import annotations

import os
import re
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from singleton.base.tasks import from_outside
from singleton.stores.access import Request
from singleton.stores.http import NOT_SENT
from singleton.stores.http.connections import Connections, Unanswered
from singleton.stores.protocol import StoreFailure
from singleton.stores.refusals import NOWHERE, reason_in, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.access import Access
    from singleton.stores.http.answers import Answer
    from singleton.stores.refusals import Destination

VERSION: Final = "2021-12-02"
"""Version of the service's interface. Locks need nothing newer."""
_NO_BODY: Final = 16_384
"""Bytes of an unasked body that are read: the body of an error has the error's code."""
_CODE: Final = re.compile(rb"<Code>(\w{1,80})</Code>")
_ID: Final = "x-ms-client-request-id"
"""The header with the id of a request, in the request and in its answer."""


class Wire:
    """Sends requests to one storage account, on one event loop."""

    def __init__(self, endpoint: str, access: Access, to: Destination = NOWHERE) -> None:
        """``endpoint``: the blob service's URL, perhaps with a path, without a query; ``to``: for messages."""
        parts = urlsplit(endpoint)
        self._host = parts.netloc.rpartition("@")[2]  # errors show it, and before the sign may be a password
        self.root = parts.path.rstrip("/")
        self._access = access
        self._to = to
        self._way = Connections(parts.scheme, self._host, proxy_for(parts.scheme, self._host))
        self._prefix = f"{os.urandom(6).hex()}-"
        self._numbers = count(1)

    async def ask(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        status: int,
        *,
        most: int = 0,
        whole: bool = True,
        body: bytes = b"",
    ) -> Answer:
        """Send a request once, with this body; return the answer if the answer has this status.

        ``most``: bytes of the answer's body, at most. A longer body is a failure, unless ``whole`` is false.

        Raises:
            StoreFailure: another status, or no answer; or the request was not sent, for want of a key or token.
        """
        named = f"{self._prefix}{next(self._numbers)}"
        request = Request(method, path, query, {**headers, _ID: named, "x-ms-version": VERSION}, len(body))
        granted = False
        try:
            await self._access.grant(request)
            granted = True
            answer = await self._way.send(
                method,
                f"{path}?{request.query}" if request.query else path,
                request.headers,
                body,
                most or _NO_BODY,
                _ID,
            )
        except Unanswered as error:
            failure = StoreFailure(detail=f"{error}: {self._host}", source="unknown" if error.sent else "unsent")
        except StoreFailure as error:
            detail = ", ".join(filter(None, (error.detail, self._to.name)))
            failure = StoreFailure(error.status, None, detail, source="unsent")
            failure.__cause__ = error.__cause__
        except BaseException as error:  # the text may show the URL, or a secret of the credential
            if from_outside(error):
                error.__traceback__ = None  # the frames beneath have the secrets
                if not granted:
                    error.add_note(NOT_SENT)
                raise
            whence = f": {self._host}" if granted else " from the account's credential"
            failure = StoreFailure(detail=f"{type(error).__name__}{whence}", source="unknown" if granted else "unsent")
        else:
            if answer.status != status:
                late = self._access.untimely() if answer.status in (401, 403) else ""
                failure = _refusal(*answer, self._to, late)
                if answer.status == 401:
                    self._access.refused()
            elif whole and most and len(answer.body) > most:  # half of a body is no use
                failure = StoreFailure(detail=f"an answer longer than {most} bytes: {self._host}")
            else:
                return answer
        finally:
            del request  # or the traceback of the failure would have the secrets
        raise failure

    async def aclose(self) -> None:
        """Close connections. Later requests are not sent."""
        try:
            await self._access.aclose()  # the caller's credential may fail
        finally:
            await self._way.aclose()


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host (``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``).

    A proxy without a scheme is asked over HTTP, as curl and requests do.
    """
    found = getproxies().get(scheme)
    if not found or proxy_bypass(host):
        return None
    return found if "://" in found else f"http://{found}"


def _refusal(
    status: int, headers: Mapping[str, str], body: bytes, to: Destination = NOWHERE, late: str = ""
) -> StoreFailure:
    code = headers.get("x-ms-error-code")
    if not code and (found := _CODE.search(body)) is not None:
        code = found[1].decode()
    return refusal(status, code, headers, to, late, reason_in(body) if status in (401, 403) else "")
