"""Explore in this process, and print what was found as one line of JSON.

``python hunt.py FOLDER SCENARIOS SEED FIRST``

The packages come from FOLDER, where a planted bug is; so this file imports nothing else of ours.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

_MEMORY = 4 << 30
"""Bytes that a planted bug may use up."""


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main(folder: str, scenarios: int, seed: int, first: int) -> None:
    """Run scenario after scenario until one breaks a promise, number ``first`` before all others."""
    _bound_memory()
    sys.path.insert(0, folder)
    import singleton
    from simulator.virtual.faults import KINDS
    from simulator.virtual.search.explore import Plan
    from simulator.virtual.workloads.workloads import WORKLOADS
    from simulator.virtual.worlds.runtime import prepare_process

    if not Path(singleton.__file__).is_relative_to(Path(folder)):
        raise SystemExit(f"{singleton.__file__} is not below {folder}")
    prepare_process()
    plan = Plan(scenarios=scenarios, hosts=5, kinds=tuple(KINDS), workloads=WORKLOADS, seed=seed)
    started = time.perf_counter()
    found: dict[str, object] = {"check": None, "after": scenarios}
    for index in sorted(range(scenarios), key=lambda index: index != first - 1):
        run = plan.scenario(index).run()
        if run.violations:
            worst = run.violations[0]
            checks = sorted({violation.check for violation in run.violations})
            found = {"check": worst.check, "text": worst.text, "after": index + 1, "checks": checks}
            break
    print(json.dumps({**found, "seconds": round(time.perf_counter() - started, 2)}))  # noqa: T201 - its result


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
