"""What an exploration did, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.moments import MOMENTS

if TYPE_CHECKING:
    from rich.console import Console

    from simulator.virtual.search.exploration import Exploration, Summary

STATES: Final = (
    "bodies",
    "leases",
    "messages done",
    "acquire applied, reply lost",
    "renew applied, reply lost",
    "release applied, reply lost",
    "write applied, reply lost",
    "paused past the lease inside a body",
    "entered while the old holder was paused or dead",
    "entered while a sync body that was told lingers",
    "entered after an operator ended a lease",
    "leases of dead hosts that expired",
    "writes after a loss",
    "stale holder refused",
)


def print_summary(console: Console, plan: Exploration, summary: Summary) -> None:
    """Print what an exploration did: its size, its faults, its invocations, the states that it reached."""
    hours = summary.virtual_seconds / 3600
    rate = summary.scenarios / max(summary.elapsed, 1e-9)
    console.print(
        f"{summary.scenarios:,} scenarios of seed {plan.seed}, {hours:,.1f} virtual hours, in {summary.elapsed:.1f} s "
        f"({rate:.0f} a second)",
        highlight=False,
    )
    for title, prefix in (("Faults", "fault: "), ("Invocations", "invocation: ")):
        counts = {name: many for name, many in summary.reached.items() if name.startswith(prefix)}
        _print_counts(console, title, {name.removeprefix(prefix): many for name, many in counts.items()})
    _print_counts(console, "States reached", {name: summary.reached[name] for name in (*STATES, *MOMENTS)})


def _print_counts(console: Console, title: str, counts: dict[str, int]) -> None:
    if counts:
        console.print(f"{title}:", highlight=False)
        for name, many in sorted(counts.items(), key=lambda item: -item[1]):
            console.print(f"  {many:>10,}  {name}", highlight=False)
