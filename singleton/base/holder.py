"""Who has a lock, as a record: what is read from its blob, or known of this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a lock, as its blob tells anybody who may read it. What is not recorded there is None.

    A process records itself when it makes the blob, or gets the lock after another one; and each hold that lasts until
    a renewal of its lease, after half a lease period at most. Until then ``renewed`` is False: ``host`` and ``pid`` are
    those of the holder, and ``owner``, ``function``, ``scope`` and ``token`` may be those of an earlier hold of that
    process. With ``fencing_tokens`` off nothing is recorded; then an earlier holder may stand here.

    Attributes:
        lock: name of the lock's blob.
        owner: who asked: an invocation id, or what the caller gave.
        host: the machine: the instance id in Azure, else its name.
        pid: id of the process there.
        function: the function whose invocation asked, where one did.
        scope: what the lock's scope came to there, 200 characters at most; None where it has none, or a hashed one.
        since: when its hold began, by the service's clock, whole seconds; None where ``renewed`` is False.
        recorded: when this was written, by the service's clock, whole seconds.
        renewed: whether it has had the lock for longer than half a lease period. None: not recorded, by this version or
            layout; then ``since`` is when the record was written.
        token: the least fencing token that the holder may have.
    """

    lock: str
    owner: str | None = None
    host: str | None = None
    pid: int | None = None
    function: str | None = None
    scope: str | None = None
    since: datetime | None = None
    recorded: datetime | None = None
    renewed: bool | None = None
    token: int | None = None


def fields_of(holder: Holder | None) -> dict[str, object]:
    """Return it as fields of a log line, by names that begin with ``holder``."""
    if holder is None:
        return {}
    return {
        "holder": holder.owner,
        "holder_function": holder.function,
        "holder_host": holder.host,
        "holder_pid": holder.pid,
        "holder_since": None if holder.since is None else holder.since.isoformat(timespec="seconds"),
        "holder_renewed": holder.renewed,
        "holder_token": holder.token,
    }
