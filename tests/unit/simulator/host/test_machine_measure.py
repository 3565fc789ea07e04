"""What a host measures of its machine: delays that a lock can't make."""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest

from simulator.host import machine_measure
from simulator.host.machine_measure import MachineMeasure, ProcessorWaits

if TYPE_CHECKING:
    from pathlib import Path

PID = 71


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the threads of a process; a test writes the kernel's numbers."""
    tasks = tmp_path / "proc" / str(PID) / "task"
    monkeypatch.setattr(machine_measure, "PROCESSES", str(tmp_path / "proc"))
    tasks.mkdir(parents=True)
    return tasks


def tell(tasks: Path, thread: int, ran: float, waited: float) -> None:
    (tasks / str(thread)).mkdir(exist_ok=True)
    (tasks / str(thread) / "schedstat").write_text(f"{int(ran * 1e9)} {int(waited * 1e9)} 5\n")


def test_the_waits_of_all_threads_since_the_last_look_count(kernel: Path) -> None:
    waits = ProcessorWaits()
    tell(kernel, 1, 2.0, 8.0)
    tell(kernel, 2, 0.0, 1.0)
    assert waits.since(PID) == 0
    tell(kernel, 1, 2.0, 8.1)
    tell(kernel, 2, 0.0, 1.2)
    assert waits.since(PID) == pytest.approx(0.3)
    assert waits.since(PID) == 0


def test_a_thread_that_computes_has_itself_to_blame_for_as_much_as_it_computed(kernel: Path) -> None:
    waits = ProcessorWaits()
    tell(kernel, 1, 0.0, 0.0)
    waits.since(PID)
    tell(kernel, 1, 0.2, 0.2)
    assert waits.since(PID) == 0
    tell(kernel, 1, 0.3, 0.5)
    assert waits.since(PID) == pytest.approx(0.2)


def test_a_thread_that_is_new_counts_from_its_beginning(kernel: Path) -> None:
    waits = ProcessorWaits()
    tell(kernel, 1, 0.0, 0.0)
    waits.since(PID)
    tell(kernel, 2, 0.0, 0.2)
    assert waits.since(PID) == pytest.approx(0.2)


def test_a_system_that_tells_nothing_and_a_process_that_has_ended_are_not_slow(kernel: Path) -> None:
    waits = ProcessorWaits()
    assert waits.since(PID + 1) == 0
    (kernel / "1").mkdir()
    assert waits.since(PID) == 0


def test_what_was_measured_is_in_the_journal_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_measure, "clock", count(100.0, 0.5).__next__)
    monkeypatch.setattr(machine_measure, "_PERIOD", 0.0)
    written: list[str] = []
    asked = threading.Event()

    def workers() -> list[int]:
        asked.set()
        return [os.getpid()]

    measure = MachineMeasure(lambda event, /, **_: written.append(event), workers)
    measure.start()
    asked.wait(10)
    measure.close()
    assert set(written) == {"machine_slow"}
