"""How much each check looked at: a check without anything to look at has shown nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.sessions import sessions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simulator.checks.findings import Finding
    from simulator.history.facts import History


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check of the verdict.

    Attributes:
        name: a word for it.
        promise: what it checks, in a sentence.
        looked_at: how many of what it looked at.
        findings: what it found.
    """

    name: str
    promise: str
    looked_at: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def violated(self) -> bool:
        """Whether it found a broken promise."""
        return any(finding.kind == "violation" for finding in self.findings)


def _bodies(history: History) -> dict[str, int]:
    return {"guarded bodies": len(history.bodies), "locks": len({body.lock for body in history.bodies})}


def _holds(history: History) -> dict[str, int]:
    return {"holds": len(history.acquisitions)}


def _tokens(history: History) -> dict[str, int]:
    issued = [got for got in history.acquisitions if got.token is not None]
    return {"fencing tokens": len(issued), "locks": len({got.lock for got in issued})}


def _kills(history: History) -> dict[str, int]:
    return {"kills": len(history.kills), "locks of the killed": sum(len(kill.holds) for kill in history.kills)}


def _messages(history: History) -> dict[str, int]:
    sent = [each for each in history.messages.values() if each.sent is not None]
    return {"messages sent": len(sent), "deliveries": sum(len(each.receipts) for each in sent)}


def _work(history: History) -> dict[str, int]:
    hosts = history.hosts.keys() - history.restarted.keys()  # one that is started again is one host
    return {"hosts": len(hosts), "invocations": len(history.invocations)}


_CHECKS: Final[dict[str, tuple[str, Callable[[History], dict[str, int]]]]] = {
    "overlaps": ("Never two inside one lock at once.", _bodies),
    "spans": (
        "A lock is kept as long as declared, held no longer, and no more wait for it than declared.",
        lambda history: {**_holds(history), "waits": len(history.waits)},
    ),
    "guards": (
        "Each guarded body runs under its lock.",
        lambda history: {**_bodies(history), "invocations": len(history.invocations)},
    ),
    "witnessed": (
        "What the lock says of bodies, names and tokens is what the hosts saw.",
        lambda history: {"bodies seen": len(history.sights)},
    ),
    "accounts": (
        "Each refusal, each wait and each hold of a lock has its reason.",
        lambda history: {"invocations": len(history.invocations), "refusals": len(history.refusals)},
    ),
    "renewals": (
        "A long hold is renewed over the network.",
        lambda history: {**_holds(history), "of them renewed": sum(got.renewed > 0 for got in history.acquisitions)},
    ),
    "losses": (
        "A body is told when its lock is lost.",
        lambda history: {"bodies seen": len(history.sights), "lost holds": sum(history.losses.values())},
    ),
    "endings": (
        "Each invocation ends as its body did.",
        lambda history: {"invocations": len(history.invocations)},
    ),
    "tokens": ("Each later holder of a lock has a greater token.", _tokens),
    "failovers": ("The locks of a killed host are taken over in time.", _kills),
    "messages": ("No message is lost, and none is stuck.", _messages),
    "copies": ("A message that is put back goes on as one copy with the same text.", _messages),
    "sessions": (
        "The messages of a session run in the order sent, and one at a time.",
        lambda history: {
            "sessions": len(found := sessions_of(history)),
            "messages": sum(len(each) for each in found.values()),
        },
    ),
    "requests": (
        "Each caller of an HTTP function is answered once, as its invocation ended.",
        lambda history: {"requests": len(history.traffic.requests)},
    ),
    "activity": ("Hosts work, and the run did what it was to do.", _work),
    "liveness": (
        "After the faults everybody gets a turn, and whose lease was broken is told.",
        lambda history: {"faults": len(history.faults), "hosts started again": len(history.restarted)},
    ),
    "faults": ("The faults that were asked for struck.", lambda history: {"faults": len(history.faults)}),
}


def report_checks(history: History, findings: Mapping[str, Iterable[Finding]]) -> tuple[CheckResult, ...]:
    """Return the result of each check: how much was looked at, and the findings."""
    return tuple(
        CheckResult(name=name, promise=promise, looked_at=look(history), findings=tuple(findings[name]))
        for name, (promise, look) in _CHECKS.items()
    )
