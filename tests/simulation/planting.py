"""Plant bugs into the packages, one at a time, and see who finds them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
SCENARIOS: Final = 1000
_HUNT: Final = "tests.simulation.hunt"


@dataclass(frozen=True, slots=True)
class Catch:
    """Who noticed a mutant: the oracle's check and after how many scenarios, or tests; nobody, if ``check`` is None."""

    check: str | None
    after: int
    text: str


def planted(mutant: Mutant, source: str) -> str:
    """Return the source with the bug in it.

    Raises:
        AssertionError: the text to change is not there exactly once.
    """
    times = source.count(mutant.old)
    assert times == 1, f"{mutant.name}: its text stands {times} times in {mutant.file}, not once"
    return source.replace(mutant.old, mutant.new)


class Hunter:
    """A process that hunts for one bug after the other; use it in a ``with`` block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _HUNT], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def hunt(self, mutant: Mutant | None, *, scenarios: int = SCENARIOS, seed: int = 1, first: int = 1) -> Catch:
        """Explore with the bug in place, or run the tests that are to see it.

        Args:
            mutant: the bug; None plants none.
            scenarios: how many to explore at most.
            seed: what they are drawn from.
            first: the number of the scenario to begin with; the others follow in order.
        """
        if mutant is not None:
            planted(mutant, (ROOT / mutant.file).read_text(encoding="utf-8"))
        wanted = {
            "bug": mutant and {"file": mutant.file, "old": mutant.old, "new": mutant.new},
            "tests": mutant.by if mutant is not None else (),
            "explore": (scenarios, seed, first, *(("", False) if mutant is None else (mutant.among, mutant.wire))),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(wanted), file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        if error := found.get("error"):
            raise RuntimeError(f"the hunt failed:\n{error}")
        return Catch(**found)
