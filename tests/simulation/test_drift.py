"""Clock drift: a fifteenth is borne, not more. The drawing of it is docs/drift.svg (``python -m benchmarks.drift``)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from benchmarks.drift import PERCENTS, Point, draw, measure, scenario
from simulator.virtual.time.loop import VirtualLoop
from simulator.virtual.time.machine import Machine

DRAWN = Path(__file__).parents[2] / "docs" / "drift.svg"
GUARANTEES = DRAWN.parent / "guarantees.md"


@pytest.mark.parametrize("percent", [-6.6, 10.0])
def test_clocks_that_lose_less_than_a_fifteenth_or_gain_break_no_promise(percent: float) -> None:
    for seed in range(20):
        assert not scenario(seed, percent).run().violations


def test_clocks_that_lose_more_than_a_fifteenth_let_hosts_believe_in_leases_that_have_ended() -> None:
    """If they did not, the margin would be larger than it says, and these worlds would show nothing."""
    assert measure(-7.0, 20).believed >= 5
    assert measure(-10.0, 20).inside >= 1


def test_a_timer_finds_its_time_on_a_clock_that_shows_next_to_nothing() -> None:
    rng, loop = random.Random(1), VirtualLoop()  # type: ignore[abstract]
    for _ in range(2000):
        now = rng.uniform(0.0, 500.0)
        machine = Machine(0, loop, rate=0.96, offset=-0.96 * now)
        shown = machine.reads(now) + rng.uniform(0.0, 1e-3)
        due = machine.when(shown, now)
        assert machine.reads(due) >= shown
        assert due - now < 0.01


def test_what_is_drawn_is_what_was_measured() -> None:
    """The last full measurement is in the drawing's own titles: none within the margin, many beyond."""
    told = re.findall(r"<title>([-+][\d.]+) %: (\d+) of (\d+) worlds</title>", DRAWN.read_text(encoding="utf-8"))
    half = len(told) // 2
    points = [
        Point(float(percent), int(worlds), int(believed), int(inside))
        for (percent, believed, worlds), (_, inside, _) in zip(told[:half], told[half:], strict=True)
    ]
    assert [point.percent for point in points] == list(PERCENTS)
    for point in points:
        if point.percent >= -6.6:
            assert point.believed == point.inside == 0
        if point.percent <= -6.9:
            assert point.believed > point.worlds / 4
    assert DRAWN.read_text(encoding="utf-8") == draw(points)
    told_in_words = GUARANTEES.read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    by_drift = {f"{point.percent:+g}".replace("+0", "0"): point for point in points}
    rows = {
        row.split(" | ")[0].strip("| "): row.strip("| ").split(" | ")[1:]
        for row in told_in_words.splitlines()
        if row.startswith(("| drift, %", "| believed", "| two inside"))
    }
    drifts = rows["drift, %"]
    assert rows["believed in an ended lease"] == [str(by_drift[drift].believed) for drift in drifts]
    assert rows["two inside"] == [str(by_drift[drift].inside) for drift in drifts]
