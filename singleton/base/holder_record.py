"""The holder of a lock as a record, read from the lock's blob or known in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a lock, as recorded on the lock's blob. A field without a record is None.

    A process writes the record when it creates the blob or gets the lock after another process, and again at the first
    renewal of a lease, half a lease period after the hold began at the latest. Before that renewal ``renewed`` is
    False: ``host`` and ``pid`` are right, but ``owner``, ``function``, ``scope`` and ``token`` may belong to an earlier
    hold of the same process. With ``fencing_tokens`` off, or by another library, nothing is recorded, and the record of
    an earlier holder may be left on the blob.

    Attributes:
        lock: name of the lock's blob.
        owner: the invocation id, or the ``owner=`` of a lock client.
        host: the machine: the instance id in Azure, else the machine's name.
        pid: id of the process on that machine.
        function: the function of the invocation; None outside Functions.
        scope: the value of the lock's scope, 200 characters at most; None without a scope, or with a hashed one.
        since: begin of the hold, by the service's clock, whole seconds; None where ``renewed`` is False.
        recorded: time of the record, by the service's clock, whole seconds.
        renewed: whether the hold is older than half a lease period. None: the version or layout of the holder does not
            record it; ``since`` is then the time of the record.
        token: the holder's fencing token is at least this number.
        endless: whether the lease never expires. Leases of this library always expire.
        break_command: for an endless lease found by a wait or a refusal: the command that breaks the lease; else None.
        kept_until: a hold of this process is over, and ``at_least`` keeps the lock until this time; else None.
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
    endless: bool = False
    break_command: str | None = field(default=None, compare=False)
    kept_until: datetime | None = None


def what_ends(break_command: str | None) -> str:
    """Return what ends a lease which never expires: a lease of old code, or of another tool."""
    return f"nothing ends it but its owner, or {f'`{break_command}`' if break_command else 'a break'}"


def in_words(holder: Holder, *, here: bool = False) -> str:
    """Return the holder, perhaps this process, as the end of a sentence; the empty text: nothing is known."""
    here = here or holder.kept_until is not None
    known: dict[str, object] = {
        " until {:%Y-%m-%d %H:%M:%S} UTC by at_least,": holder.kept_until,
        " by {!r}": holder.owner,
        " ({})" if holder.owner else " by function {}": holder.function,
        " on {}": None if here else holder.host,
        ", process {}": None if here else holder.pid,
        " in this process{}": "" if here else None,
        ", since {:%Y-%m-%d %H:%M:%S} UTC": holder.since,
    }
    said = "".join(words.format(value) for words, value in known.items() if value is not None)
    if holder.endless:
        said += f"{said and ','} by a lease without an end ({what_ends(holder.break_command)})"
    return said and f"{'kept' if holder.kept_until else 'held'}{said}"


def fields_of(holder: Holder | None) -> dict[str, object]:
    """Return the holder as fields of a log line; their names begin with ``holder``."""
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
