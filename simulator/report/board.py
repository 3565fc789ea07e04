"""The current state of the fleet, updated record by record: the live view shows it, and the killer reads it."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.findings import count, label, printable, shortened
from simulator.history.deeds import of_a_guard
from simulator.history.historian import Historian

if TYPE_CHECKING:
    from simulator.history.facts import Acquisition, Deed, Held, Message, Section, Wait
    from simulator.history.journal import Record

EVENTS: Final = 200

HostState = Literal["starting", "ready", "stopping", "stopped", "killed", "failed"]
Tone = Literal["plain", "good", "bad", "faint"]


@dataclass(frozen=True, slots=True)
class BoardEvent:
    """A line for people: time, text, and whether the news are good."""

    t: float
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNow:
    """One lock: holder, token, number of waiters, and since when a dead host has held the lock."""

    lock: str
    holder: str
    token: int | None
    waiting: int
    sections: int
    orphaned: float | None


class Board(Historian):
    """A history up to now, in which some things are under way; `events` has the lines for people."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: dict[str, HostState] = {}
        self.events: deque[BoardEvent] = deque(maxlen=EVENTS)
        self.told = 0
        self.orphans: dict[str, Held] = {}
        self.overlapped: list[tuple[float, str, str]] = []  # when, who entered, and who was inside
        self.taken: list[tuple[float, str]] = []  # when somebody took a dead host's lock, and who
        self.ended: dict[str, float] = {}  # when a host was killed, stopped or crashed
        self.again: dict[str, float] = {}  # when a host was started in place of another
        self._poisoned: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        """Take the next record, and tell of it."""
        super().take(record)
        self._tell_of_strikes(record)
        self._tell_of_hosts(record)
        match record.event:
            case "message_poisoned":
                self._tell_poisoned(record)
            case "lock" if of_a_guard(record):
                self._tell_lock(record)

    def state(self, host: str) -> HostState:
        """Return what a host is doing; an unknown host is starting."""
        return self.hosts.setdefault(host, "starting")

    def here(self) -> list[str]:
        """Return the hosts that nobody was started in place of."""
        replaced = {*self.history.restarted.values()}
        return [host for host in self.hosts if host not in replaced]

    def paused(self) -> set[str]:
        """Return the hosts that stand still."""
        return {pause.host for pause in self.history.pauses if pause.end == math.inf}

    def alive(self) -> list[str]:
        """Return the hosts that work."""
        return [host for host, state in self.hosts.items() if state == "ready"]

    def inside(self) -> list[Section]:
        """Return the guarded bodies that run on hosts that work."""
        alive = self.alive()
        return [body for bodies in self.bodies.values() for body in bodies if body.host in alive]

    def leads(self) -> list[Acquisition]:
        """Return the listeners' locks that hosts that work have."""
        alive = self.alive()
        return [got for got in self.held.values() if got.mode == "listener" and got.host in alive]

    def waiting(self) -> list[Wait]:
        """Return who waits for a lock, on hosts that work."""
        alive = self.alive()
        return [wait for waits in self.waits.values() for wait in waits if wait.host in alive]

    def sent(self) -> list[Message]:
        """Return the messages that were sent to queues with a reader in the fleet."""
        return [each for each in self.history.messages.values() if each.sent and self.history.reads(each.queue)]

    def under_way(self) -> Counter[tuple[str, str]]:
        """Count the messages and requests of each source and key that were sent and are not done."""
        messages = Counter((each.queue, each.key) for each in self.sent() if not (each.completed or each.poisoned))
        asked = self.history.traffic.requests.values()
        return messages + Counter((each.source, each.key) for each in asked if each.open)

    def locks(self) -> list[LockNow]:
        """Return all locks that were ever used, the ones in trouble first."""
        holders: dict[str, Deed] = {got.lock: got for got in (*self.leads(), *self.inside())}
        tokens = {got.lock: got.token for got in self.history.acquisitions}
        sections = Counter(body.lock for body in self.history.sections)
        waiting = Counter(wait.lock for wait in self.waiting())
        rows = []
        for lock in sections | waiting:
            orphan = self.orphans.get(lock)
            holder = holders.get(lock, orphan)
            rows.append(
                LockNow(
                    lock=lock,
                    holder=holder.host if holder else "",
                    token=tokens.get(lock),
                    waiting=waiting[lock],
                    sections=sections[lock],
                    orphaned=orphan.t if orphan else None,
                )
            )
        return sorted(rows, key=lambda row: (row.orphaned is None, row.lock))

    def tell(self, record: Record, text: str, tone: Tone = "plain") -> None:
        """Add a line for people."""
        self.events.append(BoardEvent(record.t, text, tone))
        self.told += 1

    def _tell_of_strikes(self, record: Record) -> None:
        history = self.history
        match record.event:
            case "kill":
                holds = history.kills[-1].holds
                locked = history.setup.get("singleton", True)
                where = f"{'while it held' if locked else 'inside'} {_first(record)}"
                more = f" and {len(holds) - 1} more" if len(holds) > 1 else ""
                if not self._struck:  # else its fault is told
                    self.tell(record, f"{record.host} (pid {record.get('pid')}) killed {where}{more}", "bad")
                if locked:
                    self.orphans.update({hold.lock: hold for hold in holds})
                self._end(record, "killed")
            case "pause" if record.get("outside"):
                self.tell(record, f"{record.host} is stopped by somebody outside this run", "bad")
            case "pause" if not self._struck:
                self.tell(record, f"{record.host} stopped while it held {_first(record)}", "bad")
            case "resume":
                self.tell(record, f"{record.host} goes on", "faint")
            case "fault":
                self.tell(record, printable(record.text("what")), "bad")
            case "fault_ended":
                fault = next((fault for fault in history.faults if fault.id == record.get("id")), None)
                if fault is not None and fault.kind not in {"kill", "pause"} and fault.end > fault.start:
                    who = f" of {', '.join(fault.hosts)}" if fault.hosts else ""
                    hits = count(fault.hits, "request")
                    self.tell(record, f"the {fault.kind}{who} is over: it hit {hits}", "faint")
            case "healed":
                self.tell(record, "all faults are undone: now everybody must get their turn", "good")

    def _tell_of_hosts(self, record: Record) -> None:
        host = record.host
        match record.event:
            case "host_started":
                self.state(host)
            case "host_restarted":
                self.again[host] = record.t
                self.state(host)
                self.tell(record, f"{record.text('after')} is started again as {host}", "faint")
            case "host_ready":
                self.hosts[host] = "ready"
                if host in self.again:
                    self.tell(record, f"{host} is ready", "faint")
                elif set(self.hosts.values()) == {"ready"}:
                    self.tell(record, f"{count(len(self.hosts), 'host')} ready", "faint")
            case "http_port":
                functions = count(len(record.get("functions") or ()), "HTTP function")
                self.tell(record, f"{host} serves {functions} on {record.text('url')}", "faint")
            case "worker_exited":
                cut, why = (
                    count(self.history.worker_ends[-1].cut, "guarded body", "guarded bodies"),
                    record.text("reason"),
                )
                self.tell(record, f"a worker of {host} ended with {cut} inside, and is started again: {why}", "bad")
            case "host_error":
                self.hosts[host] = "failed"
                self.tell(record, f"{host}: {record.text('message')}", "bad")
            case "host_stopping" if self.state(host) == "ready":
                self.hosts[host] = "stopping"
            case "host_stopped":
                self._end(record, "stopped")
            case "host_exited" if record.get("expected"):
                self._end(record, "stopped")
            case "host_exited" if self.state(host) != "killed":
                self.tell(record, f"{host} ended by itself with exit code {record.get('code')}", "bad")
                self._end(record, "failed")

    def _end(self, record: Record, state: HostState) -> None:
        self.hosts[record.host] = state
        self.ended.setdefault(record.host, record.t)

    def _tell_poisoned(self, record: Record) -> None:
        queue = record.text("queue")
        self._poisoned[queue] += 1
        many = self._poisoned[queue]
        if many == 1:
            self.tell(record, f"{record.host}: a message of {queue} was poisoned", "bad")
        elif str(many).strip("0") == "1":  # the tenth, the hundredth… a broken function must not hide the rest
            self.tell(record, f"{record.host}: {many:,} messages of {queue} are poisoned by now", "bad")

    def _tell_lock(self, record: Record) -> None:
        lock = record.text("lock")
        match record.get("kind"):
            case "acquired" if lock in self.orphans and self.orphans[lock].host != record.host:
                gone = self.orphans.pop(lock).t
                self.taken.append((record.t, record.host))
                took = self.history.acquisitions[-1].since(gone) - gone  # as the verdict counts
                self.tell(record, f"{record.host} took {_named(lock)} over after {took:.1f} s", "good")
            case "lost":
                self.tell(record, f"{record.host} lost {_named(lock)} ({record.text('reason')})", "bad")
            case "body_started":
                self._tell_overlap(record, self.history.sections[-1])

    def _tell_overlap(self, record: Record, entered: Section) -> None:
        """Tell of one more inside than may, but for who stood still or is held for too long, and expects company."""
        others = [each for each in self.inside() if each is not entered and self._is_beside(each, entered)]
        if len(others) >= self.history.function(entered.function).at_once:
            self.overlapped.append((record.t, record.host, others[0].host))
            where = f"entered {_named(entered.lock)} with {others[0].host} inside"
            self.tell(record, f"OVERLAP: {record.host} {where}", "bad")

    @property
    def _struck(self) -> bool:
        return bool(self.history.setup.get("faults"))

    def _is_beside(self, other: Section, entered: Section) -> bool:
        led = entered.mode == "listener" and other.host == entered.host
        slept = self.history.paused(other.host, other.start, math.inf)
        # A fault may end a hold, and a thread goes on.
        outlived = other.told is not None and (
            self._struck or self.history.function(other.function).max_hold is not None
        )
        broken = self.history.operated_before(other, entered.start)  # its holder does not know that yet
        return other.lock == entered.lock and not (led or slept or outlived or broken)


def _first(record: Record) -> str:
    holds = record.get("holds")
    return _named(holds[0]["lock"]) if holds else "nothing"


def _named(lock: str) -> str:
    return shortened(label(lock))
