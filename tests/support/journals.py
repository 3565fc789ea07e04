"""Made-up journals for tests: a story of a small fleet, told in a few lines."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

from simulator.history.journal import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMER = "locks/shared/import_eligibility"


def key_lock(key: str) -> str:
    """Name the lock of one key of the queue function."""
    return f"locks/shared/ship.{key}"


class Story:
    """Collects the records of a run that starts at second 1000; all times given are seconds into the run.

    ``policy`` is the queue function's.
    """

    def __init__(self, hosts: int = 3, policy: str = "wait", **setup: Any) -> None:
        self.records: list[Record] = []
        self._numbers = count(1)
        self.fleet(0, "run_started", **{"hosts": hosts, "kill": 0, "seed": 7, "singleton": True, **setup})
        for number in range(1, hosts + 1):
            name = f"host-{number}"
            self.add(0.1, name, "host_started", pid=100 + number)
            guard = {"guarded": True, "lease": 15, "poll": 5}
            self.add(0.2, name, "function", name="ship", trigger="queue", queue="orders", on_contention=policy, **guard)
            timer = {"trigger": "timer", "on_contention": "skip", "tick": 5}
            self.add(0.2, name, "function", name="import_eligibility", **timer, **guard)
            self.add(0.3, name, "host_ready")

    def know(self, **more: Any) -> Story:
        """Say more of the functions."""
        for record in self.records:
            if record.event == "function":
                record.fields.update(more)  # type: ignore[attr-defined]
        return self

    def add(self, t: float, host: str, event: str, **fields: Any) -> None:
        self.records.append(Record(1000 + t, host, event, fields))

    def fleet(self, t: float, event: str, **fields: Any) -> None:
        self.add(t, "fleet", event, **fields)

    def lock(self, t: float, host: str, kind: str, lock: str, owner: str, **fields: Any) -> None:
        function = "ship" if "ship" in lock else "import_eligibility"
        self.add(t, host, "lock", kind=kind, lock=lock, owner=owner, **{"function": function, **fields})

    def body(
        self,
        host: str,
        start: float,
        end: float | None,
        lock: str = TIMER,
        *,
        token: int | None = None,
        owner: str = "",
        asked: float | None = None,
        message: str | None = None,
        outcome: str = "ok",
        held: bool = True,
        seen: tuple[float, float | None] | None = None,
        keys: dict[str, str | None] | None = None,
    ) -> str:
        """Tell of one guarded invocation; `end` None: it was still inside when its host died.

        `seen`: when its host saw its body begin and end; `keys`: what it must exclude others by.
        """
        owner = owner or f"invocation-{next(self._numbers)}"
        function = "ship" if "ship" in lock else "import_eligibility"
        asked = start if asked is None else asked
        about = {} if message is None else {"message": message}
        if seen is not None:
            self.sight(host, *seen, invocation=owner, function=function)
        self.add(asked, host, "invocation_started", function=function, invocation=owner, **about)
        if keys is not None:
            self.add(asked, host, "expected", invocation=owner, keys=keys)
        self.lock(asked, host, "waiting", lock, owner)
        if held:
            self.lock(start, host, "acquired", lock, owner, token=token)
        self.lock(start, host, "body_started", lock, owner, token=token)
        if end is not None:
            self.lock(end, host, "body_ended", lock, owner, token=token, reason=outcome)
            if held:
                self.lock(end, host, "released", lock, owner, token=token)
            error = {} if outcome == "ok" else {"error": "ValueError: no"}
            ended = "ok" if outcome == "ok" else "error"
            self.add(end, host, "invocation_ended", function=function, invocation=owner, outcome=ended, **error)
        return owner

    def sight(
        self,
        host: str,
        start: float,
        end: float | None,
        *,
        invocation: str = "",
        function: str = "ship",
        sees: dict[str, Any] | None = None,
        **left: Any,
    ) -> None:
        """Tell that a host saw a body; ``sees``: what that saw."""
        run = next(self._numbers)
        about = {"run": run, "function": function, "invocation": invocation}
        self.add(start, host, "body_entered", **about, **(sees or {}))
        if end is not None:
            self.add(end, host, "body_left", **about, **left)

    def lease(
        self, t: float, host: str, action: str, lock: str = TIMER, *, status: int | None = 200, **more: Any
    ) -> None:
        """Tell that a host saw a request for a lease, and its answer."""
        self.add(t, host, "lease_request", action=action, blob=f"/account/container/{lock}", status=status, **more)

    def skip(self, host: str, t: float, lock: str = TIMER, *, reason: str = "skip", message: str | None = None) -> str:
        """Tell of one invocation that found the lock taken and gave up."""
        owner = f"invocation-{next(self._numbers)}"
        function = "ship" if "ship" in lock else "import_eligibility"
        about = {} if message is None else {"message": message}
        self.add(t, host, "invocation_started", function=function, invocation=owner, **about)
        self.lock(t, host, "waiting", lock, owner)
        self.lock(t, host, "contended", lock, owner, reason=reason)
        outcome = (
            {"outcome": "ok"}
            if reason == "skip"
            else {"outcome": "error", "error": "LockNotAcquired: taken", "blames": "LockNotAcquired"}
        )
        self.add(t, host, "invocation_ended", function=function, invocation=owner, **outcome)
        return owner

    def sent(self, t: float, name: str, key: str = "a") -> None:
        self.fleet(t, "message_sent", queue="orders", id=name, key=key)

    def received(self, t: float, host: str, name: str, dequeue_count: int = 1) -> None:
        self.add(t, host, "message_received", queue="orders", id=name, dequeue_count=dequeue_count, function="ship")

    def completed(self, t: float, host: str, name: str) -> None:
        self.add(t, host, "message_completed", queue="orders", id=name)

    def message(
        self,
        name: str,
        host: str,
        start: float,
        end: float,
        *,
        token: int | None = None,
        key: str = "a",
        asked: float | None = None,
    ) -> None:
        """Tell of one message that was sent, processed under its key's lock, and deleted."""
        asked = start if asked is None else asked
        self.sent(asked - 0.2, name, key)
        self.received(asked - 0.1, host, name)
        self.body(host, start, end, key_lock(key), token=token, message=name, asked=asked)
        self.completed(end + 0.01, host, name)

    def kill(self, t: float, host: str, *locks: str, function: str = "") -> None:
        holds = [
            {"lock": lock, "function": function or ("ship" if "ship" in lock else "import_eligibility"), "owner": "x"}
            for lock in locks
        ]
        self.records.append(Record(1000 + t, host, "kill", {"host": host, "pid": 100, "holds": holds}))

    def fault(
        self, start: float, end: float | None, kind: str, *hosts: str, lock: str = "", hits: int = 1, **fields: Any
    ) -> int:
        """Tell of a fault of a nemesis; ``end`` None: it lasts. Return its number."""
        number = next(self._numbers)
        about = {"hosts": list(hosts), "lock": lock, "way": "", "aim": "holder", "what": f"a {kind}", **fields}
        self.fleet(start, "fault", id=number, kind=kind, **about)
        if end is not None:
            self.fleet(end, "fault_ended", id=number, hits=hits)
        return number

    def end(self, t: float, **fields: Any) -> list[Record]:
        """End the run with empty queues, unless told otherwise, and return its records."""
        if not any(record.event == "queue_left" for record in self.records):
            self.fleet(t, "queue_left", queue="orders", ready=0, invisible=0, ids=[])
        self.fleet(t, "run_ended", **fields)
        return self.records


def plain(texts: Iterable[str]) -> list[str]:
    """Return sentences of a verdict without their times and bounds."""
    return [text.partition(" (from second ")[0] for text in texts]


def bare(texts: Iterable[str]) -> list[str]:
    """Return sentences of a verdict without the faults that do not explain what is told."""
    return [re.sub(r" \(the \w+ from second \S+ to \S+ does not explain it\)", "", text) for text in texts]


def quiet_story(hosts: int) -> Story:
    """A run in which the first host ran bodies, the second was killed without a body, and the rest ran none."""
    story = Story(hosts, kill=1)
    story.body("host-1", 10, 12, token=1)
    for number in range(2, hosts + 1):
        about = {"function": "import_eligibility", "invocation": f"skipped-{number}"}
        story.add(11, f"host-{number}", "invocation_started", **about)
        story.lock(11.5, f"host-{number}", "contended", TIMER, f"skipped-{number}", reason="skip")
        story.add(11.5, f"host-{number}", "invocation_ended", outcome="ok", **about)
    story.kill(15, "host-2", TIMER)
    return story


def good_story(**setup: Any) -> Story:
    """A run as it should be: three messages, two keys, a timer; `host-2` dies with the lock, `host-1` takes over."""
    story = Story(kill=1, **setup)
    story.body("host-1", 1.0, 2.0, token=1)
    story.skip("host-2", 1.1)
    story.message("m1", "host-1", 1.0, 2.0, token=1)
    story.message("m2", "host-3", 2.5, 3.0, token=1, key="b")
    story.sent(3.8, "m3")
    story.received(3.9, "host-2", "m3")
    story.body("host-2", 4.0, None, key_lock("a"), token=2, message="m3")
    story.kill(4.5, "host-2", key_lock("a"))
    story.message("m4", "host-1", 20.0, 20.5, token=3, asked=5.0)
    story.received(24.5, "host-3", "m3", 2)
    story.body("host-3", 25.0, 25.5, key_lock("a"), token=4, message="m3")
    story.completed(25.6, "host-3", "m3")
    return story
