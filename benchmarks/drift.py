"""Which clock drift does the lock bear? Worlds whose hosts' clocks all run slow or fast, and what the oracle saw.

    python -m benchmarks.drift            the numbers
    python -m benchmarks.drift --write    and docs/drift.svg

A lease's deadline is at 14/15 of its period by the host's clock, so a clock that loses more than a fifteenth lets its
host believe in a lease that has ended. It shows when a host can't renew: in each world five hosts share one lock, and
hosts are cut off from the storage for longer than a lease, here and there. A fast clock only gives up earlier.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, say, table
from simulator.virtual.faults.host_faults import Drift
from simulator.virtual.faults.network_faults import Partition
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.registry import workload
from simulator.virtual.worlds.runtime import prepare_process
from simulator.virtual.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.virtual.worlds.outcome import Run

PERCENTS: Final = (
    *(-10.0, -9.5, -9.0, -8.5, -8.0, -7.5, -7.25, -7.0, -6.9, -6.8, -6.7, -6.6, -6.5, -6.0, -5.0, -4.0, -3.0, -2.0),
    *(-1.0, 0.0, 1.0, 2.0, 4.0, 6.0, 6.6, 6.7, 7.0, 8.0, 9.0, 10.0),
)
WORLDS: Final = 100
TOLERATED: Final = 100 / 15
"""Percent: the margin of a lease, a fifteenth of its period."""
_HOSTS: Final = 5
_CUT_OFF: Final = 25.0
_TARGET: Final = Path(__file__).parent.parent / "docs" / "drift.svg"


@dataclass(frozen=True, slots=True)
class Point:
    """What came of the worlds of one drift: in how many a host believed, in how many two were inside."""

    percent: float
    worlds: int
    believed: int
    inside: int


def scenario(seed: int, percent: float) -> WorldScenario:
    """Return world number ``seed`` with all clocks off by so much."""
    rng = random.Random(f"{seed}/drift")
    drifts = [Drift(host=host, percent=percent, at=0.0) for host in range(_HOSTS)]
    cuts = [
        Partition(host=rng.randrange(_HOSTS), at=round(rng.uniform(2.0, 90.0), 3), seconds=_CUT_OFF) for _ in range(6)
    ]
    return WorldScenario(
        seed=seed, hosts=_HOSTS, workload="mutex", faults=(*drifts, *sorted(cuts, key=lambda cut: cut.at))
    )


def run(seed: int, percent: float) -> Run:
    """Let a world happen to its end, whatever breaks before."""
    planned = scenario(seed, percent)
    world = World(seed, planned.hosts, planned.faults)
    world.ends_when_broken = False
    workload(planned.workload).start(world)
    return world.run()


def measure(percent: float, worlds: int) -> Point:
    """Run the worlds of one drift."""
    seen: Counter[str] = Counter()
    for seed in range(worlds):
        seen.update({violation.check for violation in run(seed, percent).violations})
    if seen and percent > -TOLERATED:
        say(f"  At {percent:g} %, which is to be borne, promises were broken: {', '.join(seen)}")
    return Point(percent, worlds, seen["believes"], seen["two inside"])


def main(*, write: bool = False, worlds: int = WORLDS) -> None:
    """Measure all points; show them, and with ``write`` draw them."""
    prepare_process()
    heading("Clock drift")
    points = [measure(percent, worlds) for percent in PERCENTS]
    rows = [("drift of all clocks", "worlds", "believed in an ended lease", "two inside at once")]
    rows += [(f"{p.percent:+g} %", str(p.worlds), str(p.believed), str(p.inside)) for p in points]
    table(rows)
    if write:
        _TARGET.write_text(draw(points), encoding="utf-8")
        say(f"  Drawn: {_TARGET.name}")


# --- the drawing ------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 64, 60
_BELIEVED, _INSIDE = "#c2410c", "#1d4ed8"


def draw(points: Sequence[Point]) -> str:
    """Return the points as an SVG image."""
    top = max(10, -(-max(100 * point.believed // point.worlds for point in points) // 10) * 10)
    said = "Share of virtual worlds in which"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="title">',
        '<title id="title">Share of virtual worlds with a violation, by the drift of the hosts\' clocks</title>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        '<g font-family="sans-serif" font-size="13" fill="#1f2937">',
        f'<text x="{_LEFT}" y="24" font-size="16" font-weight="bold">Which clock drift does the lock bear?</text>',
        f'<text x="{_LEFT + 350}" y="24">{said}</text>',
        *_axes(top),
        *_series(points, top),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(percent: float) -> float:
    return round(_LEFT + (percent + 10) / 20 * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(share: float, top: int) -> float:
    return round(_HEIGHT - _BOTTOM - share / top * (_HEIGHT - _TOP - _BOTTOM), 1)


def _axes(top: int) -> Iterator[str]:
    floor, ceiling = _y(0, top), _y(top, top)
    left, right = _x(-TOLERATED), _x(10)
    yield (
        f'<rect x="{left}" y="{ceiling}" width="{right - left:.1f}" height="{floor - ceiling:.1f}" fill="#ecfdf5"/>'
        f'<line x1="{left}" y1="{ceiling}" x2="{left}" y2="{floor}" stroke="#047857" stroke-dasharray="5 4"/>'
        f'<text x="{left + 8}" y="{ceiling + 18}" fill="#047857">tolerated: clocks that lose up to 1/15 (6.7 %)</text>'
    )
    for share in range(0, top + 1, 10):
        y = _y(share, top)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_x(10)}" y2="{y}" stroke="#e5e7eb"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{share} %</text>'
    for percent in range(-10, 11, 2):
        x = _x(percent)
        yield f'<line x1="{x}" y1="{floor}" x2="{x}" y2="{floor + 5}" stroke="#6b7280"/>'
        sign = "+" if percent > 0 else "\N{MINUS SIGN}" if percent < 0 else ""
        yield f'<text x="{x}" y="{floor + 20}" text-anchor="middle">{sign}{abs(percent)} %</text>'
    yield f'<line x1="{_LEFT}" y1="{floor}" x2="{_x(10)}" y2="{floor}" stroke="#6b7280"/>'
    middle = (_x(-10) + _x(10)) / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">slow ← drift of the hosts\' clocks → fast</text>'


def _series(points: Sequence[Point], top: int) -> Iterator[str]:
    worlds = points[0].worlds
    kinds = (
        (_BELIEVED, "a host believed in a lease that had ended", [point.believed for point in points]),
        (_INSIDE, "two were inside at once", [point.inside for point in points]),
    )
    for number, (colour, words, counts) in enumerate(kinds):
        dots = [(_x(p.percent), _y(100 * n / worlds, top), p, n) for p, n in zip(points, counts, strict=True)]
        path = " ".join(f"{x},{y}" for x, y, _, _ in dots)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for x, y, point, count in dots:
            told = f"{point.percent:+g} %: {count} of {worlds} worlds"
            yield f'<circle cx="{x}" cy="{y}" r="3.2" fill="{colour}"><title>{told}</title></circle>'
        x = _LEFT + number * 330
        yield f'<circle cx="{x + 5}" cy="43" r="5" fill="{colour}"/><text x="{x + 17}" y="48">{words}</text>'


if __name__ == "__main__":
    main(write="--write" in sys.argv[1:])
