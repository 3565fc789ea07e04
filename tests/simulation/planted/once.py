"""Planted bugs in ``once``: what is kept of an operation, who may keep it, and for how long."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

BLOCK = "singleton/patterns/once/block.py"
GUARD = "singleton/patterns/once/once_guard.py"
LOOKING = "singleton/patterns/once/results.py"
OPERATION = "singleton/patterns/once/block.py"
RESULTS = "singleton/patterns/once/results.py"
CONTENT = "singleton/locking/section_state.py"
FENCING = "singleton/locking/fencing.py"
SWEEPING = "singleton/operating/container_pass.py"
BLOCK_TESTS = "tests/unit/patterns/once/test_once_block.py"
FUNCTION_TESTS = "tests/unit/patterns/once/test_once_functions.py"
FUNCTION_SCHEDULES = "tests/unit/patterns/once/test_once_function_schedules.py"
SCHEDULES = "tests/unit/patterns/once/test_once_schedules.py"

ONCE: tuple[Mutant, ...] = (
    Mutant(
        name="what was done meanwhile is not looked for",
        file=OPERATION,
        old="        self._outcome = self._look.outcome_in(self.lock, kept)\n",
        new="",
        breaks="one that waited does again what it waited for",
        among="once",
    ),
    Mutant(
        name="nothing is ever known to be kept",
        file=CONTENT,
        old="        if self._fencing.keeps_content:\n",
        new="        if False:\n",
        breaks="one that waited does again what it waited for",
        among="once",
    ),
    Mutant(
        name="content that others wrote is not seen",
        file=FENCING,
        old=" or any(map(tells_of_content, self._others))",
        new="",
        breaks="one that waited does again what it waited for",
        among="once",
    ),
    Mutant(
        name="a result that was refused counts",
        file=OPERATION,
        old=(
            "            yield self._hold, kept\n"
            "        except Exception as error:\n            self._failure = error\n            raise\n"
        ),
        new="            yield self._hold, kept\n        except StorageUnavailable:\n            pass\n",
        breaks="one whose lease is gone returns a result of its own beside another's",
        among="once",
    ),
    Mutant(
        name="a write without an answer is told as lost",
        file=CONTENT,
        old="            if not unanswered or isinstance(error, StorageUnavailable):\n                raise\n",
        new="            raise\n",
        breaks="one is told that its result does not count, and every repeat gets it",
        among="once",
    ),
    Mutant(
        name="a body that raises has done it",
        file=BLOCK,
        old="            if kind is None:\n                await self._operation._end()",
        new="            if True:\n                await self._operation._end()",
        breaks="an operation that failed counts as done, without a result",
        among="once",
    ),
    Mutant(
        name="a finish that failed may be followed by another",
        file=OPERATION,
        old="        if self.done or self._failure is not None:",
        new="        if self.done:",
        breaks="a result that may have been kept is replaced by another",
        by=(BLOCK_TESTS,),
        why="it takes a body that goes on after its finish has failed",
    ),
    Mutant(
        name="functions don't look for what was done meanwhile",
        file=GUARD,
        old="outcome = found.outcome_in(call.lock, await locks.call_async(unless_lost(lambda _: keeper.glance())))",
        new="outcome = None",
        breaks="an invocation that waited does again what it waited for",
        among="once",
    ),
    Mutant(
        name="functions return what may not be kept",
        file=GUARD,
        old="        await locks.call_async(lambda _: keeper.write(kept))\n        if outcome.unkept is None:",
        new=(
            "        with __import__('contextlib').suppress(Exception):\n"
            "            await locks.call_async(lambda _: keeper.write(kept))\n        if outcome.unkept is None:"
        ),
        breaks="an invocation returns a result, and the next one another",
        among="once",
    ),
    Mutant(
        name="functions return what a repeat will not",
        file=GUARD,
        old="            return outcome.result  # what a repeat will get",
        new="            return result",
        breaks="the first gets a tuple, and a repeat a list",
        by=(FUNCTION_TESTS,),
        why="the results of worlds are numbers",
    ),
    Mutant(
        name="empty outputs are forgotten",
        file=GUARD,
        old="_outputs(call.arguments) if output.get() is not None}",
        new="_outputs(call.arguments) if output.get()}",
        breaks="an output that was set to an empty text is not set again",
        among="once",
    ),
    Mutant(
        name="results of functions are kept for a week",
        file=GUARD,
        old="found.service_time + self.keep",
        new="found.service_time + 7 * 86_400",
        breaks="a declaration's keep has no effect",
        by=(FUNCTION_SCHEDULES,),
        why="a world lasts for minutes, and results for days",
    ),
    Mutant(
        name="a body writes where its result is kept",
        file=GUARD,
        old="        hold.stateless = _TAKEN\n",
        new="",
        breaks="a body that keeps a checkpoint and fails can never be tried again",
        by=(FUNCTION_TESTS,),
        why="bodies of worlds keep no checkpoints",
    ),
    Mutant(
        name="two results at a time",
        file=OPERATION,
        old='        self._failure = StorageUnavailable(text, lock=self.lock, reason="interrupted")\n',
        new="",
        breaks="one result is written over another",
        by=(BLOCK_TESTS,),
        why="it takes a body that finishes twice",
    ),
    Mutant(
        name="results never expire",
        file=RESULTS,
        old="    if kind is None or expired(kept.marks, at):",
        new="    if kind is None:",
        breaks="a key is never as new",
        by=(BLOCK_TESTS,),
        why="a world lasts for minutes, and results for days",
    ),
    Mutant(
        name="until when is said by this machine's clock",
        file=LOOKING,
        old="        if kept.at is not None:\n",
        new="        if False:\n",
        breaks="a result expires early or late, if the clock of the process that did the operation is wrong",
        by=(BLOCK_TESTS,),
        why="a world lasts for minutes, and results for days",
    ),
    Mutant(
        name="what can't be kept has not been done",
        file=GUARD,
        old="        await locks.call_async(lambda _: keeper.write(kept))\n        if outcome.unkept is None:",
        new=(
            "        if outcome.unkept is None:\n            await locks.call_async(lambda _: keeper.write(kept))\n"
            "        if outcome.unkept is None:"
        ),
        breaks="an effect is repeated, because its result can't be kept",
        by=(FUNCTION_TESTS,),
        why="the results of worlds are numbers",
    ),
    Mutant(
        name="outputs are not set again",
        file=GUARD,
        old="            output.set(outcome.outputs[name])",
        new="            pass",
        breaks="a message that a function sent is lost with the host that was to send it",
        by=(FUNCTION_TESTS,),
        why="bodies of worlds have no outputs",
    ),
    Mutant(
        name="a block begins though its lock was lost during the look",
        file=BLOCK,
        old="            hold.raise_if_lost()  # the look may have taken long\n",
        new="",
        breaks="an operation begins in a process that stood still until its lease was over",
        among="small-once",
    ),
    Mutant(
        name="a sweep takes results that are of use",
        file=SWEEPING,
        old="    return expired(blob.metadata, at) and all(",
        new="    return all(",
        breaks="an operation is done again after a sweep, and cursors are lost",
        by=(SCHEDULES,),
        why="no world sweeps",
    ),
    Mutant(
        name="the end of a result goes by the clock of the host",
        file=LOOKING,
        old="        if kept.at is not None:\n",
        new="        if False:\n",
        breaks="a host whose clock is wrong keeps its results for too short or too long",
        among="once",
    ),
    Mutant(
        name="work that a lock below skipped is done",
        file=GUARD,
        old="        if refused is None and self.written in undone:  #",
        new="        if False:  #",
        breaks="an operation that was never done has a result, and repeats do not do it",
        among="once",
    ),
)
