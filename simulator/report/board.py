"""The state of the fleet right now, kept up record by record: what the live view shows and the killer looks at."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.findings import count, label
from simulator.history.historian import section_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Section
    from simulator.history.journal import Record

EVENTS: Final = 200

State = Literal["starting", "ready", "stopping", "stopped", "killed", "failed"]
Tone = Literal["plain", "good", "bad", "faint"]


@dataclass(slots=True, kw_only=True)
class HostNow:
    """One host."""

    name: str
    pid: int = 0
    state: State = "starting"
    inside: dict[tuple[str, str], Section] = field(default_factory=dict)
    held: set[tuple[str, str]] = field(default_factory=set)
    leads: dict[str, Section] = field(default_factory=dict)
    waiting: dict[tuple[str, str], float] = field(default_factory=dict)
    stopped_in: set[tuple[str, str]] = field(default_factory=set)  # the bodies in which it stood still
    bodies: int = 0
    skipped: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell people: when, what, and whether it is good news."""

    t: float
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNow:
    """One lock: who has it, who wants it, and since when its holder is dead."""

    lock: str
    holder: str
    token: int | None
    waiting: int
    sections: int
    orphaned: float | None


class Board:
    """Folds records into the present; `events` has what changed lately."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self.hosts: dict[str, HostNow] = {}
        self.functions: dict[str, Record] = {}
        self.events: deque[Event] = deque(maxlen=EVENTS)
        self.told = 0
        self.start = 0.0
        self.sections: Counter[str] = Counter()
        self.outages: dict[str, tuple[float, str]] = {}
        self.took_over = 0
        self.sent = 0
        self.done = 0
        self.overlaps = 0
        self._open: dict[str, tuple[str, str]] = {}
        self._poisoned: Counter[str] = Counter()
        self._early: set[str] = set()
        self._last_token: dict[str, int | None] = {}

    def take(self, record: Record) -> None:
        """Take the next record."""
        handler = getattr(self, f"_on_{record.event}", None)
        if handler is not None:
            handler(record)

    def under_way(self) -> Counter[tuple[str, str]]:
        """Count the messages of each queue and key that were sent and are not done."""
        return Counter(self._open.values())

    def alive(self) -> list[HostNow]:
        """Return the hosts that work."""
        return [host for host in self.hosts.values() if host.state == "ready"]

    def inside(self) -> Iterator[Section]:
        """Yield the guarded bodies that run on hosts that work."""
        for host in self.alive():
            yield from host.inside.values()

    def waiters(self, lock: str, *, but: str = "") -> int:
        """Count the invocations that wait for a lock, without those on the host `but`."""
        return sum(waited == lock for host in self.alive() if host.name != but for waited, _ in host.waiting)

    def locks(self) -> list[LockNow]:
        """Return all locks that were ever used, the ones in trouble first, then the most wanted."""
        held = {lock: lead for host in self.alive() for lock, lead in host.leads.items()}
        held |= {inside.lock: inside for inside in self.inside()}
        waiting = Counter(lock for host in self.alive() for lock, _ in host.waiting)
        rows = [
            LockNow(
                lock=lock,
                holder=held[lock].host if lock in held else self.outages[lock][1] if lock in self.outages else "",
                token=held[lock].token if lock in held else self._last_token.get(lock),
                waiting=waiting[lock],
                sections=self.sections[lock],
                orphaned=self.outages[lock][0] if lock in self.outages else None,
            )
            for lock in self.sections | waiting
        ]
        return sorted(rows, key=lambda row: (row.orphaned is None, row.lock))

    def tell(self, t: float, text: str, tone: Tone = "plain") -> None:
        """Add something to tell."""
        self.events.append(Event(t, text, tone))
        self.told += 1

    def host(self, name: str) -> HostNow:
        """Return a host, known already or not."""
        return self.hosts.setdefault(name, HostNow(name=name))

    # -- the fleet's records -------------------------------------------------------------------------

    def _on_run_started(self, record: Record) -> None:
        self.start = record.t

    def _on_message_sent(self, record: Record) -> None:
        queue = record.text("queue")
        if self.functions and all(function.text("queue") != queue for function in self.functions.values()):
            return  # an output that nobody here reads
        self.sent += 1
        name = record.text("id")
        if name not in self._early:
            self._open[name] = (queue, record.text("key"))

    def _on_kill(self, record: Record) -> None:
        host = self.host(record.host)
        locks = [str(hold.get("lock")) for hold in record.get("holds") or ()]
        held = label(locks[0]) if locks else "nothing"
        more = f" and {len(locks) - 1} more" if len(locks) > 1 else ""
        locked = any(inside.held for inside in host.inside.values()) or not host.inside
        where = f"while it held {held}" if locked else f"inside {held}"
        self.tell(record.t, f"{host.name} (pid {record.get('pid')}) killed {where}{more}", "bad")
        for inside in (*host.leads.values(), *host.inside.values()):
            if inside.held:
                self.outages[inside.lock] = (record.t, host.name)
        self._clear(host, "killed")

    def _on_pause(self, record: Record) -> None:
        locks = [str(hold.get("lock")) for hold in record.get("holds") or ()]
        host = self.host(record.host)
        host.stopped_in |= set(host.inside)
        self.tell(record.t, f"{record.host} stopped while it held {label(locks[0]) if locks else 'nothing'}", "bad")

    def _on_resume(self, record: Record) -> None:
        self.tell(record.t, f"{record.host} goes on", "faint")

    def _on_host_exited(self, record: Record) -> None:
        host = self.host(record.host)
        if record.get("expected"):
            self._clear(host, "stopped")
        elif host.state != "killed":
            self.tell(record.t, f"{host.name} ended by itself with exit code {record.get('code')}", "bad")
            self._clear(host, "failed")

    # -- the hosts' records --------------------------------------------------------------------------

    def _on_host_started(self, record: Record) -> None:
        self.host(record.host).pid = int(record.get("pid") or 0)

    def _on_host_ready(self, record: Record) -> None:
        host = self.host(record.host)
        host.state = "ready"
        if all(other.state == "ready" for other in self.hosts.values()):
            self.tell(record.t, f"{count(len(self.hosts), 'host')} ready", "faint")

    def _on_host_stopping(self, record: Record) -> None:
        host = self.host(record.host)
        if host.state == "ready":
            host.state = "stopping"

    def _on_host_stopped(self, record: Record) -> None:
        self._clear(self.host(record.host), "stopped")

    def _on_host_error(self, record: Record) -> None:
        self.host(record.host).state = "failed"
        self.tell(record.t, f"{record.host}: {record.text('message')}", "bad")

    def _on_function(self, record: Record) -> None:
        self.functions.setdefault(record.text("name"), record)

    def _on_message_completed(self, record: Record) -> None:
        self.done += 1
        self._close(record)

    def _on_message_poisoned(self, record: Record) -> None:
        queue = record.text("queue")
        self._poisoned[queue] += 1
        many = self._poisoned[queue]
        if many == 1:
            self.tell(record.t, f"{record.host}: a message of {queue} was poisoned", "bad")
        elif str(many).strip("0") == "1":  # the tenth, the hundredth… a broken function must not hide the rest
            self.tell(record.t, f"{record.host}: {many:,} messages of {queue} are poisoned by now", "bad")
        self._close(record)

    def _on_invocation_ended(self, record: Record) -> None:
        host = self.host(record.host)
        if record.text("outcome") != "ok":
            host.failed += 1
        for key in [key for key in host.waiting if key[1] == record.text("invocation")]:
            del host.waiting[key]

    def _on_lock(self, record: Record) -> None:
        host = self.host(record.host)
        lock = record.text("lock")
        key = (lock, record.text("owner"))
        match record.get("kind"):
            case "waiting":
                host.waiting[key] = record.t
            case "acquired":
                host.waiting.pop(key, None)
                host.held.add(key)
                if record.get("mode") == "listener":
                    host.leads[lock] = section_of(record, held=True)
                self._last_token[lock] = record.get("token")
                self._taken_over(record)
            case "deferred":
                self._put_back(record)
            case "contended":
                host.waiting.pop(key, None)
                host.skipped += 1
            case "body_started":
                self._body_started(host, key, record)
            case "body_ended":
                if host.inside.pop(key, None) is not None:
                    host.bodies += 1
            case "released":
                host.held.discard(key)
                self._resign(host, key)
            case "lost":
                host.held.discard(key)
                self._resign(host, key)
                self.tell(record.t, f"{host.name} lost {label(lock)} ({record.text('reason')})", "bad")

    def _body_started(self, host: HostNow, key: tuple[str, str], record: Record) -> None:
        lock = key[0]
        led = record.get("mode") == "listener"
        others = (inside for inside in self.inside() if inside.lock == lock and not self._stood_still(inside))
        other = next((inside for inside in others if not (led and inside.host == host.name)), None)
        if other is not None:
            self.overlaps += 1
            self.tell(record.t, f"OVERLAP: {host.name} entered {label(lock)} with {other.host} inside", "bad")
        host.inside[key] = section_of(record, held=(lock, "") in host.held if led else key in host.held)
        self.sections[lock] += 1

    def _stood_still(self, inside: Section) -> bool:
        """Tell whether its host was stopped in this body: it has to expect company."""
        return (inside.lock, inside.owner) in self.host(inside.host).stopped_in

    def _resign(self, host: HostNow, key: tuple[str, str]) -> None:
        lock, owner = key
        if not owner:
            host.leads.pop(lock, None)

    def _taken_over(self, record: Record) -> None:
        lock = record.text("lock")
        if lock in self.outages and self.outages[lock][1] != record.host:
            since, _ = self.outages.pop(lock)
            self.took_over += 1
            self.tell(record.t, f"{record.host} took {label(lock)} over after {record.t - since:.1f} s", "good")

    def _close(self, record: Record) -> None:
        if self._open.pop(record.text("id"), None) is None:
            self._early.add(record.text("id"))

    def _put_back(self, record: Record) -> None:
        """Go on counting a message under the id of its copy."""
        sent_as = self._open.pop(record.text("message_id"), None)
        copy = record.text("copy_id")
        if sent_as is not None and copy not in self._early:
            self._open[copy] = sent_as

    def _clear(self, host: HostNow, state: State) -> None:
        host.state = state
        host.inside.clear()
        host.held.clear()
        host.leads.clear()
        host.waiting.clear()
