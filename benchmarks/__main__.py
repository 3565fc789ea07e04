"""``python -m benchmarks``: all of them but the long one, ``sweep``; with names (``virtual``, ``drift`` …), those."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks import bench_observing, bench_relay, bench_storage, bench_virtual, drift, sweep_storm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ALL: dict[str, Callable[[], None]] = {
    "virtual": bench_virtual.main,
    "storage": bench_storage.main,
    "drift": drift.main,
    "observing": bench_observing.main,
    "relay": bench_relay.main,
    "sweep": sweep_storm.main,
}
_LONG = {"sweep"}
"""Those that take hours: only when asked for."""


def main(names: Sequence[str]) -> int:
    """Run the benchmarks of these names, or all that are not long."""
    if unknown := [name for name in names if name not in _ALL]:
        sys.stderr.write(f"{unknown[0]!r} is no benchmark: give some of {', '.join(_ALL)}, or nothing for all.\n")
        return 2
    for name in names or [name for name in _ALL if name not in _LONG]:
        _ALL[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
