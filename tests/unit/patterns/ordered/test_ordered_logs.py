"""The logs of an inbox lose nothing, repeat nothing, and keep the order, whatever becomes of requests and readers."""

from __future__ import annotations

import os
import random

import pytest

from singleton.patterns.ordered import log_reader
from tests.support.virtual import run_virtual
from tests.unit.patterns.ordered.logworld import World

SEEDS = int(os.environ.get("ORDERED_SEEDS", "8"))
SHAPES = [(50_000, 128, 2**18), (50_000, 2, 150), (3, 128, 2**18), (4, 2, 150)]
"""Blocks of a full log, entries of a short one, and bytes that are read at once."""


@pytest.mark.parametrize("trouble", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(("most_blocks", "few", "ahead"), SHAPES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_that_was_sent_is_handled_once_and_in_order(
    seed: int, most_blocks: int, few: int, ahead: int, trouble: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "_FEW", few)
    monkeypatch.setattr(log_reader, "_AHEAD", ahead)
    rng = random.Random(f"{seed} {most_blocks} {few} {trouble}")
    world = World(rng, most_blocks=most_blocks, trouble=trouble)
    run_virtual(world.run(rng.randint(1, 3), rng.randint(1, 15)))
    world.judge()
