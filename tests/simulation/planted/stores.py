"""Planted bugs in the store for blobs that production uses: its requests, signatures, connections and answers."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

ACCESS: Final = "singleton/stores/access.py"
ANSWERS: Final = "singleton/stores/http/answers.py"
CONNECTIONS: Final = "singleton/stores/http/connections.py"
DIRECT: Final = "singleton/stores/direct_blob.py"
HEADERS: Final = "singleton/stores/refusals.py"
TOKEN: Final = "singleton/stores/bearer_token.py"
QUEUE: Final = "singleton/stores/azure_queue.py"
WIRE: Final = "singleton/stores/wire.py"

STORES: tuple[Mutant, ...] = (
    Mutant(
        name="a chunk without its last byte",
        file=ANSWERS,
        old="            if not (yield from self._take(size)) or",
        new="            if not (yield from self._take(size - 1)) or",
        breaks="an answer in chunks can't be read",
        wire=True,
    ),
    Mutant(
        name="a connection is kept that the service closes",
        file=CONNECTIONS,
        old="        if reader.lasts and connection.usable",
        new="        if connection.usable",
        breaks="a request is sent on a connection whose end the service has announced",
        wire=True,
    ),
    Mutant(
        name="a connection is kept after a refused body",
        file=CONNECTIONS,
        old=" and connection.usable and not refused:",
        new=" and connection.usable:",
        breaks="a request may be read as the rest of a body that the service has refused",
        wire=True,
    ),
    Mutant(
        name="412 read as 409",
        file=WIRE,
        old="                failure = _refusal(*answer, self._to, late)\n",
        new="                status = 409 if answer.status == 412 else answer.status\n"
        "                failure = _refusal(status, answer.headers, answer.body, self._to, late)\n",
        breaks="a lock is told another status than the service's",
        wire=True,
    ),
    Mutant(
        name="a refused token is kept",
        file=TOKEN,
        old='the next request asks for a new token."""\n        self._ends = 0.0\n',
        new='the next request asks for a new token."""\n        self._due = 0.0\n',
        breaks="after a 401 the next request has the old token again",
        wire=True,
    ),
    Mutant(
        name="a renewal names no lease",
        file=DIRECT,
        old='"renew", {"x-ms-lease-id": lease_id}',
        new='"renew", {}',
        breaks="the service refuses each renewal",
        wire=True,
    ),
    Mutant(
        name="Retry-After is not read",
        file=HEADERS,
        old='seconds(headers.get("Retry-After"))',
        new="None",
        breaks="a service that asks for time is asked again too soon",
        wire=True,
    ),
    Mutant(
        name="a proxy's page is a success",
        file=DIRECT,
        old='        raise _nonsense("Last-Modified") from None\n    return _needed(headers, "ETag")\n',
        new='        pass\n    return str(headers.get("ETag", ""))\n',
        breaks="an answer that is not the service's counts as its word",
        wire=True,
    ),
    Mutant(
        name="no length is signed as nought",
        file=ACCESS,
        old="{request.length or ''}",
        new="{request.length}",
        breaks="requests without a body are signed wrongly",
        wire=True,
    ),
    Mutant(
        name="an answer to another request counts",
        file=CONNECTIONS,
        old='                raise Unanswered("an answer to another request")  # noqa: TRY301\n',
        new="                pass\n",
        breaks="a late answer decides about the next request",
        wire=True,
    ),
    Mutant(
        name="two lengths are one",
        file=ANSWERS,
        old="        if length is not None and not _LENGTH.fullmatch(length):\n",
        new='        length = length and length.partition(",")[0]\n'
        "        if length is not None and not _LENGTH.fullmatch(length):\n",
        breaks="an answer with two readings decides about a lock",
        wire=True,
    ),
    Mutant(
        name="a connection is kept with a part of a request",
        file=CONNECTIONS,
        old=" or self._transport.is_closing() or self._transport.get_write_buffer_size())",
        new=" or self._transport.is_closing())",
        breaks="the rest of a body stands before the next request",
        wire=True,
    ),
    Mutant(
        name="a copy is put back without an end",
        file=QUEUE,
        old="        until = -1 if life is None else life\n",
        new="        until = -1\n",
        breaks="a message that is put back again and again outlives its life",
        among="defer",
        wire=True,
    ),
    Mutant(
        name="a hidden message keeps its receipt",
        file=QUEUE,
        old="return Hidden(str(reply.pop_receipt), ",
        new="return Hidden(receipt, ",
        breaks="what is put back can't be deleted, and runs twice",
        among="defer",
        wire=True,
    ),
    Mutant(
        name="a proxy's page is a success of the queue",
        file=QUEUE,
        old="    if reply.http_response.status_code < 300:\n",
        new="    if reply.http_response.status_code < 200:\n",
        breaks="a message counts as deleted that nobody has deleted",
        among="defer",
        wire=True,
    ),
    Mutant(
        name="one bell of all that were received",
        file=QUEUE,
        old="return [message async for message in page]",
        new="return [message async for message in page][:1]",
        breaks="keys wait for bells that were received and dropped",
        among="ordered",
        wire=True,
    ),
    Mutant(
        name="a refusal of something in between leaves no doubt",
        file="singleton/stores/protocol.py",
        old='        return self.source == "between" or (self.meaning == "transient" and self.source != "unsent")\n',
        new='        return self.meaning == "transient" and self.source != "unsent"\n',
        breaks="a lease that was granted all the same is not given back",
        among="mixed",
    ),
)
