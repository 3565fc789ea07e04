"""Run broken locks and right apps with real processes, and compare what the verdict says with what it must say.

    python -m tests.broken                    all of them, for some minutes each
    python -m tests.broken NAME … --seeds 3   some, three times each
    python -m tests.broken --list

A broken lock runs the sample, or an app of `apps`; the right lock runs each app of `apps`, and must not be accused.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

import click

from tests.broken.real import cases, told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broken", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="which; default: all")
    parser.add_argument("--seeds", type=int, default=1, help="how many runs of each")
    parser.add_argument("--duration", type=int, default=12, help="seconds for which work is offered")
    parser.add_argument("--jobs", type=int, default=2, help="how many runs at once")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    given = parser.parse_args()
    chosen = [case for case in cases() if not given.names or case.name in given.names]
    if given.list:
        click.echo("\n".join(f"{case.name}: {case.says or 'not accused'}" for case in chosen))
        return 0
    runs = [(case, seed) for seed in range(1, given.seeds + 1) for case in chosen]
    wrong = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        answers = pool.map(lambda run: told(run[0], seed=run[1], duration=given.duration), runs)
        for (case, seed), verdict in zip(runs, answers, strict=True):
            right = case.met_by(verdict)
            wrong += not right
            click.echo(f"{'right' if right else 'WRONG'}  {case.name} (seed {seed}): {verdict.words}")
    click.echo(f"{len(runs) - wrong} of {len(runs)} as they must be")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
