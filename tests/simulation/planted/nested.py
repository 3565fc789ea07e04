"""Planted bugs in calls under several holds."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

REENTRY = "singleton/runtime/reentry.py"

NESTED: tuple[Mutant, ...] = (
    Mutant(
        name="a body begins under a lost hold",
        file=REENTRY,
        old="            raise_the_lost(outer)  # a thread",
        new="            # a thread",
        breaks="a thread that waited runs its body beside the next holder of an outer lock",
        among="nested",
    ),
    Mutant(
        name="a call waits on without its outer hold",
        file="singleton/runtime/cancellation.py",
        old="        async with none_lost(outer):\n            return",
        new="        if outer:\n            return",
        breaks="a thread learns of the loss only when it has the inner lock",
        among="nested",
    ),
    Mutant(
        name="a hold answers for itself only",
        file=REENTRY,
        old="JointSignal(hold.own_lost, *outer)",
        new="JointSignal(hold.own_lost)",
        breaks="a body goes on after the loss of an outer hold",
        among="nested",
    ),
    Mutant(
        name="an outer hold is looked for in the innermost block only",
        file=REENTRY,
        old="            signals += (hold.own_lost,)\n",
        new="            return (hold.own_lost,)\n",
        breaks="of three holds the loss of the outermost is not seen",
        among="nested",
    ),
)
