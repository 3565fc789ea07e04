"""Make a story for the collection: the first that exploring finds with a planted bug in the code, shrunk.

python -m tests.simulation.story_maker "name of the bug" ...
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

import tests.worlds  # noqa: F401 - registers the workloads
from simulator.virtual.faults import KINDS
from simulator.virtual.search.exploration import Exploration, explore, find, save_story
from simulator.virtual.worlds.runtime import prepare_process
from tests.simulation.bugs import bug

STORIES: Final = Path(__file__).with_name("stories")
_WORKLOADS: Final = ("mutex", "keys", "chain", "skip", "mixed", "queue")


def make(name: str) -> Path | None:
    """Write the story of a planted bug; None if exploring does not find it."""
    plan = Exploration(scenarios=1000, hosts=4, kinds=tuple(KINDS), workloads=_WORKLOADS)
    with bug(name):
        index = explore(plan, lambda _: None).broken
        if index is None:
            return None
        scenario, run = find(plan, index)
    file = STORIES / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    save_story(file, scenario, run)
    file.write_text(json.dumps({"bug": name, **json.loads(file.read_text())}, indent=2) + "\n", encoding="utf-8")
    return file


def main(names: list[str]) -> None:
    """Make the stories of these bugs."""
    prepare_process()
    for name in names:
        print(name, "->", make(name) or "not found")  # noqa: T201 - a tool


if __name__ == "__main__":
    main(sys.argv[1:])
