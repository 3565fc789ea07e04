"""The kept outcome of an operation: its result and output bindings, or the reason why no result is kept.

The content is JSON; bytes and HTTP responses are marked in the JSON and read back as bytes and responses.
"""

from __future__ import annotations

import base64
import json
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from singleton.base import clock
from singleton.base.errors import ConfigurationError, ResultNotKept, text_of
from singleton.base.state import (
    MOST_STATE,
    OUTCOME,
    STATE_KEY,
    UNTIL_KEY,
    Kept,
    encoded,
    expired,
    marked,
    not_understood,
    refuse_foreign,
)
from singleton.functions.http_answers import decoded_answer, encoded_answer
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.protocol import ContentStore, StoreFailure
from singleton.stores.stamps import kept_in

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an operation which is done.

    Attributes:
        outputs: values of the function's output bindings, by parameter.
        unkept: reason why the result is not kept; None for a kept result.
    """

    result: Any = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    unkept: str | None = None

    def given(self, lock: str) -> Any:
        """Return the result. ``ResultNotKept``: no result is kept."""
        if self.unkept is not None:
            raise ResultNotKept(
                f"{lock!r} is done, and will not be done again, but its result could not be kept: {self.unkept}",
                lock=lock,
                reason=self.unkept,
            )
        return self.result


def kept_as(result: Any, outputs: Mapping[str, Any], until: float) -> tuple[Kept, Outcome]:
    """Return content for an outcome, kept until a time of the service's clock, and the outcome as read back."""
    try:
        encoded = {name: _encoded(value) for name, value in outputs.items()}
        body = json.dumps({"result": _encoded(result), "outputs": encoded}, separators=(",", ":")).encode()
        if len(body) > MOST_STATE:
            raise ValueError(f"it has {len(body):,} bytes, and at most {MOST_STATE:,} are allowed")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - code of the user's may answer for the value; what was done is done
        body = json.dumps({"unkept": text_of(error)[:500]}).encode()
    return Kept(body, {STATE_KEY: OUTCOME, UNTIL_KEY: str(math.ceil(until))}), _read(body)


def outcome_in(lock: str, kept: Kept, at: float) -> Outcome | None:
    """Return the outcome kept with the lock; None: no outcome, or expired at this time of the service's clock.

    ``StorageError``: the blob's content is no outcome.
    """
    refuse_foreign(lock, kept)
    kind = marked(kept.marks, STATE_KEY)
    if kind is None or expired(kept.marks, at):
        return None
    try:
        if kind == OUTCOME:
            return _read(kept.body)
    except (ValueError, KeyError, TypeError, AttributeError):
        kind = f"{OUTCOME}, and is not"
    raise not_understood(lock, kind)


def _read(body: bytes) -> Outcome:
    found = json.loads(body)
    if "unkept" in found:
        return Outcome(unkept=str(found["unkept"]))
    outputs = {name: _decoded(value) for name, value in found["outputs"].items()}
    return Outcome(result=_decoded(found["result"]), outputs=outputs)


def _encoded(value: Any) -> dict[str, Any]:
    if isinstance(value, ConfigurationError):  # a result that was refused
        raise TypeError(str(value))
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode()}
    if (answer := encoded_answer(value)) is not None:
        return {"http": answer}
    try:
        encoded(value)  # refuses what JSON would change
    except TypeError as error:
        raise TypeError(f"{error}, or an HttpResponse") from None
    return {"json": value}


def _decoded(encoded: Mapping[str, Any]) -> Any:
    ((kind, value),) = encoded.items()
    if kind == "bytes":
        return base64.b64decode(value)
    return decoded_answer(value) if kind == "http" else value


_CALL: Final = 20.0
"""Seconds for one answer, which may be of 8 MiB."""
_ANSWER: Final = 30.0


class Look:
    """What one request found, without the lock: the outcome that is kept; None: nothing, or no longer."""

    def __init__(self, lock: str, kept: Kept, sent: float) -> None:
        self._ahead = time.time() - clock.now()
        self.outcome = self.outcome_in(lock, kept, sent)

    @property
    def service_time(self) -> float:
        """The service's clock, now, seconds since 1970."""
        return self._ahead + clock.now()

    def outcome_in(self, lock: str, kept: Kept, sent: float | None = None) -> Outcome | None:
        """Return what was read by a request, as of when it was sent: now, unless that is given."""
        if kept.at is not None:
            self._ahead = kept.at - (clock.now() if sent is None else sent)
        return outcome_in(lock, kept, self.service_time)


async def look(store: ContentStore, lock: str) -> Look:
    """Look for the outcome kept with a lock. Call on the lock thread. ``StorageError``: something else is there."""
    sent = clock.now()
    try:
        kept = kept_in(await answered(lambda: store.get(lock, None, MOST_STATE), call=_CALL, answer=_ANSWER))
    except StoreFailure as failure:
        if failure.meaning != "missing":
            raise storage_error(lock, failure, what="the result kept with lock") from failure
        kept = Kept(at=failure.at)
    return Look(lock, kept, sent)
