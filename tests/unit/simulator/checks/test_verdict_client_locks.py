"""The locks of lock clients are judged as those of guards."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story


class Sections(Story):
    """A run whose functions take locks of lock clients."""

    def stay(
        self,
        host: str,
        start: float,
        end: float | None,
        name: str = "stock",
        *,
        token: int | None = 1,
        got: str = "",
        lease: tuple[float, float] | None = None,
        lost: tuple[float, str] | None = None,
        **asked: Any,
    ) -> None:
        """Tell of a block. ``lease``: when its lease was granted and given back, if not with the block."""
        number, got = str(next(self._numbers)), got or name
        of_lease = {
            "blob": f"/{asked.get('where', 'account/locks')}/{got}",
            "lease": number,
            "status": 200,
            "took": 0.0,
            "worker": 1,
        }
        granted, released = lease or (start, math.inf if end is None or lost else end)
        self.add(granted, host, "lease_request", action="acquire", period=15, **of_lease)
        told = {"number": number, "worker": 1}
        facts = {"lease": 15, "name": name, "got": got, "token": token, "where": "account/locks", **asked}
        self.add(start, host, "client_lock", kind="entered", **told, **facts)
        if lost is not None:
            self.add(lost[0], host, "client_lock", kind="lost", reason=lost[1], **told)
        if end is not None:
            self.add(end, host, "client_lock", kind="left", **told)
        if released < math.inf:
            self.add(released, host, "lease_request", action="release", **of_lease)

    def says(self) -> list[str]:
        """Return what is wrong with locks of lock clients."""
        return [text for text in judge(self.records).violations if text.startswith("lock clients: ")]


def test_blocks_one_after_the_other_are_right() -> None:
    run = Sections()
    run.stay("host-1", 1, 3, token=1)
    run.stay("host-2", 3, 5, token=2)
    run.stay("host-3", 1, 9, "other", token=1)
    assert run.says() == []
    assert not any("lock clients" in text for text in judge(run.records).untried)
    (check,) = (each for each in judge(run.records).checks if each.name == "clients")
    assert check.looked_at == {"holds of lock clients": 3}


def test_two_blocks_of_one_lock_at_once_are_found() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 3, 5, token=2)
    (text,) = run.says()
    assert text.startswith("lock clients: 1 overlap: two bodies of one lock ran at the same time; the longest for 1.00")
    assert text.endswith("of stock, on host-1 and host-2")


def test_locks_of_two_containers_are_two() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 3, 5, token=1, where="account/others", got="stock")
    assert run.says() == []


def test_a_semaphore_lets_in_as_many_as_it_says() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, "printers", got="printers/slot-0", token=8, limit=2)
    run.stay("host-2", 2, 5, "printers", got="printers/slot-1", token=3, limit=2)
    assert run.says() == []
    run.stay("host-3", 3, 6, "printers", got="printers/slot-2", token=1, limit=2)
    (text,) = run.says()
    assert "more than 2 bodies of one semaphore" in text


def test_a_lock_and_a_semaphore_of_one_name_are_two() -> None:
    run = Sections()
    run.stay("host-1", 1, 4, token=1)
    run.stay("host-2", 2, 5, token=1, got="stock/slot-0", limit=1)
    assert run.says() == []


def test_a_block_that_begins_after_its_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 3, lease=(1, 1.5))
    assert any("body went on after the lease was given back" in text for text in run.says())


def test_a_block_under_another_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 3, got="stack")
    (text,) = run.says()
    assert text.startswith("lock clients: another blob was asked for, 1 time for 'stock': the first time")


def test_a_block_beyond_its_lease_is_found() -> None:
    run = Sections()
    run.stay("host-1", 2, 6, lease=(2, 4))
    assert run.says() == [
        "lock clients: 1 body went on after the lease was given back: the first of stock, on host-1 at 2.0 s"
    ]


def test_tokens_go_up() -> None:
    run = Sections()
    run.stay("host-1", 1, 3, token=2)
    run.stay("host-2", 3, 5, token=1)
    (text,) = run.says()
    assert text.startswith("lock clients: 1 fencing token out of order; the first on stock: host-2 got 1")


def test_a_loss_needs_a_cause() -> None:
    run = Sections()
    run.stay("host-1", 1, 9, lost=(4, "expired"))
    (text,) = run.says()
    assert text.startswith("lock clients: 1 hold of 'stock' lost (expired), which nothing in this run caused")


def test_user_code_that_breaks_its_lock_is_a_cause_and_said() -> None:
    run = Sections()
    run.stay("host-1", 1, 9, token=1, lost=(6, "gone"))
    run.add(4, "host-2", "operator", action="break", lock="stock", path="account/locks/stock")
    run.stay("host-2", 5, 8, token=2)
    assert run.says() == []
    notes = judge(run.records).notes
    assert "user code on host-2 asked to break the lease of stock, after second 4.0: that is not judged" in notes


@pytest.mark.parametrize("end", [60, None])
def test_a_host_that_slept_past_its_lease_is_no_overlap(end: float | None) -> None:
    run = Sections()
    run.stay("host-1", 1, end, token=1, lost=(40, "expired"))
    run.add(2, "host-1", "pause")
    run.add(40, "host-1", "resume")
    run.stay("host-2", 18, 24, token=2)
    run.fleet(70, "run_ended")
    assert run.says() == []


def test_options_of_one_block_are_not_those_of_another() -> None:
    run = Sections()
    run.stay("host-1", 1, 5, token=1, max_hold=2.0, lost=(3, "too long"))
    run.stay("host-1", 20, 28, token=2)
    assert run.says() == []


def test_a_function_without_a_guard_is_judged_by_its_locks() -> None:
    run = Sections()
    run.add(0.9, "host-1", "invocation_started", function="reserve", invocation="call")
    run.stay("host-1", 1, 3, invocation="call")
    run.add(3.1, "host-1", "invocation_ended", function="reserve", invocation="call", outcome="ok")
    assert judge(run.records).inside == {"reserve": ("locks of lock clients",)}
