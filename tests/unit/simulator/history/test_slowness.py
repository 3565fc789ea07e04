"""Delays of the machine, in the journal and read from the journal."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.history.journal import Record
from simulator.history.slowness import Slowness, SlownessLog


class Journal(list[tuple[str, dict[str, Any]]]):
    def write(self, event: str, /, **fields: object) -> None:
        self.append((event, dict(fields)))


def test_a_second_without_a_delay_is_not_written() -> None:
    journal = Journal()
    log = SlownessLog(journal.write)
    for late in (0.0, 0.01, 0.0, 0.02, 0.0, 0.2, 0.0, 0.01):
        log.add(0.25, late)
    log.flush()
    assert journal == [
        ("machine_slow", {"measures": [(0.25, 0.0), (0.25, 0.2), (0.25, 0.0), (0.25, 0.01)]}),
    ]


def test_a_delay_is_no_longer_than_its_measure_and_never_negative() -> None:
    journal = Journal()
    log = SlownessLog(journal.write)
    log.add(0.5, 3.0)
    log.add(0.5, -1.0)
    assert journal == [("machine_slow", {"measures": [(0.5, 0.5), (0.5, 0.0)]})]


def heard(*records: tuple[float, str, list[tuple[float, float]]], paused: tuple[float, float] = (0, 0)) -> Slowness:
    slowness = Slowness()
    for t, host, measures in records:
        record = Record(t, host, "machine_slow", {"measures": measures})
        slowness.take(record, lambda _, start, end: start < paused[1] and end > paused[0])
    return slowness


MEASURES = [(0.5, 0.1), (0.5, 0.4), (1.0, 0.0), (0.5, 0.2)]  # from 97.5 on


@pytest.mark.parametrize(
    ("start", "end", "late"),
    [
        (90, 110, 0.7),
        (97.5, 98, 0.1),
        (98, 99, 0.4),
        (98.4, 98.5, 0.1),  # no more than the time asked for
        (98.5, 99.5, 0),
        (101, 110, 0),
        (100, 90, 0),
    ],
)
def test_the_delays_between_two_times(start: float, end: float, late: float) -> None:
    slowness = heard((100, "host-1", MEASURES))
    assert slowness.late("host-1", start=start, end=end) == pytest.approx(late)
    assert slowness.late("host-2", start=start, end=end) == 0


def test_delays_of_several_hosts_add_up_to_the_whole_time_at_most() -> None:
    slowness = heard((10, "host-1", [(1, 0.7)]), (10, "host-2", [(1, 0.7)]))
    assert slowness.late("host-1", "host-2", "host-1", start=8, end=12) == pytest.approx(1.4)
    assert slowness.late("host-1", "host-2", start=9, end=10) == pytest.approx(1.0)


def test_a_measure_in_a_pause_that_the_run_made_is_left_out() -> None:
    slowness = heard((100, "host-1", MEASURES), paused=(97, 98.2))
    assert slowness.late("host-1", start=90, end=110) == pytest.approx(0.2)
