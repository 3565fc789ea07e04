"""What an exploration tried, in words: its worlds, the faults in them, how invocations ended, the moments of danger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.virtual.search.exploration import Exploration, Summary


DANGERS: Final[Mapping[str, str]] = {
    "acquire applied, reply lost": "a lease was granted, and the answer was lost",
    "renew applied, reply lost": "a lease was renewed, and the answer was lost",
    "release applied, reply lost": "a lease was released, and the answer was lost",
    "write applied, reply lost": "a write was done, and the answer was lost",
    "paused past the lease inside a body": "a host stood still inside a body until its lease had ended",
    "entered while the old holder was paused or dead": "a host entered while the former holder stood still or was dead",
    "entered while a sync body that was told lingers": "a host entered while a body in a thread that was told went on",
    "entered after an operator ended a lease": "a host entered after an operator had ended a lease",
    "leases of dead hosts that expired": "the lease of a dead host expired",
    "writes after a loss": "a body wrote after the loss of its lock",
    "stale holder refused": "the token kept out a write of a former holder",
    "renewed at the last moment": "a lease was renewed shortly before its expiry",
    "raced for a lease that expired": "several hosts asked at once for a lease that had expired",
    "raced for a lease that was released": "several hosts asked at once for a lease that had been released",
}
"""The states that are dangerous for a lock, in words."""
_ENDS: Final[Mapping[str, str]] = {
    "ok": "ended well",
    "failed": "failed by an error of the body",
    "cancelled": "were cancelled",
    "put back": "put their message back",
    "started inside another": "were called inside another one",
}


def tried(plan: Exploration, summary: Summary) -> Iterator[str]:
    """Yield what was tried, a sentence or two each."""
    kind = "workload" if len(plan.workloads) == 1 else "workloads"
    what = "the functions of the app" if plan.app else f"the {kind} {_words(sorted(plan.workloads))}"
    most = "one host" if plan.hosts == 1 else f"up to {plan.hosts} hosts"
    worlds, hours = count(summary.scenarios, "virtual world"), summary.virtual_seconds / 3600
    yield f"{worlds} with {most} ran {what}, for {hours:,.1f} virtual hours in all."
    reached = summary.reached
    faults = _most_first(reached, "fault: ")
    if faults:
        yield f"{count(sum(faults.values()), 'fault')} struck, of {count(len(faults), 'kind')}: {_words([*faults])}."
    else:
        yield "No fault struck."
    ends = _most_first(reached, "invocation: ")
    bodies = f"{count(reached['bodies'], 'body', 'bodies')} ran under {count(reached['leases'], 'lease')}"
    told = [f"{many:,} {_ENDS.get(end, f'ended with {end}')}" for end, many in ends.items()]
    yield f"{bodies}. {f'Of the invocations {_words(told)}.' if told else ''}".strip()
    seen = {words: reached[state] for state, words in DANGERS.items()}
    if met := [f"{words} ({many:,} times)" if many > 1 else f"{words} (once)" for words, many in seen.items() if many]:
        yield f"Moments of danger that were met: {'; '.join(met)}."
    if unmet := [words for words, many in seen.items() if not many]:
        yield f"Not met, perhaps in more worlds (--scenarios): {'; '.join(unmet)}."


def _most_first(reached: Mapping[str, int], prefix: str) -> dict[str, int]:
    found = {name.removeprefix(prefix): many for name, many in reached.items() if name.startswith(prefix) and many}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _words(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
