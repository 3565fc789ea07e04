"""What a policy of docs/how-to/skip.md is asked."""

from __future__ import annotations

from typing import Any

from singleton import Contention


def afterwards(shown: Any) -> None:
    for count, policy in ((1, "raise"), (4, "skip")):
        assert shown.patient_at_first(Contention(function="f", lock="l", owner="o", dequeue_count=count)) == policy
