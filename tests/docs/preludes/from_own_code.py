"""Who calls the new code of docs/how-to/from-own-code.md. The old code leases a blob of a real account."""

from __future__ import annotations

from typing import Any


def afterwards(shown: Any) -> None:
    ran: list[str] = []
    assert shown.run_alone("nightly", lambda: ran.append("it"))
    assert ran == ["it"]
