"""``make explore``: ``singleton-sim explore`` and ``replay`` with the workloads of this project's own tests.

make explore ARGS="--workload chain,once --scenarios 500"
make explore ARGS="replay singleton-story.json"
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from simulator.cli import main
from simulator.explore_cli import explore
from tests.worlds import NAMED, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str]) -> None:
    """Explore with these options, or replay a story, and leave with the exit code of ``singleton-sim``."""
    option = next(each for each in explore.params if each.name == "workload")
    option.help = (
        f"Workloads: all, or names with commas between them: {', '.join(WORKLOADS)}. "
        f"Not in all: {', '.join(NAMED)} (all,images has both)."
    )
    main(arguments if arguments[:1] == ["replay"] else ["explore", *arguments])


if __name__ == "__main__":
    run(sys.argv[1:])
