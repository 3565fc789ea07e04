"""The locks that somebody who reads docs/locks-cli.md looks at."""

from __future__ import annotations

from singleton import LockClient


def beforehand() -> None:
    with LockClient() as locks, locks.lock("locks/myapp/ship_order.contoso"):
        pass
