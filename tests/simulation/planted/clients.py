"""Planted bugs in what stands around locks: calls, clients, registry, slots, leaderships, periodic work."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

CLIENTS: tuple[Mutant, ...] = (
    Mutant(
        name="what comes too late is kept",
        file="singleton/runtime/calls.py",
        old="            if undo is not None and error is None:",
        new="            if undo is None and error is None:",
        breaks="a hold that is granted when its caller is cancelled is never released",
    ),
    Mutant(
        name="a withdrawn call goes on",
        file="singleton/runtime/calls.py",
        old="                self._soon(partial(self._loop.call_soon, _cancel, answer))",
        new="                pass",
        breaks="a cancelled wait goes on in line, and holds up those behind it",
    ),
    Mutant(
        name="the time of at_least is cut short by a second release",
        file="singleton/runtime/registry.py",
        old="        elif hold not in self._tails:\n",
        new="        elif hold in self._tails:\n            await self.drop(hold)\n        else:\n",
        breaks="a hold that is kept for a while is released at once when it is released twice",
        among="clients",
    ),
    Mutant(
        name="a gate for each set of options",
        file="singleton/locking/record.py",
        old="self._guards.setdefault(blob, BlobGuard())",
        new="BlobGuard()",
        breaks="sections of one process overlap where one blob has several sets of options",
        by=("tests/unit/runtime/test_registry.py",),
        why="it takes a section that outlives its lease, with another waiting there under other options",
    ),
    Mutant(
        name="brought stores are never closed",
        file="singleton/runtime/registry.py",
        old="        if not users:\n            self.accompany(",
        new="        if users:\n            self.accompany(",
        breaks="a client with a credential of its own leaves its connection open when it is closed",
    ),
    Mutant(
        name="a busy brought store is closed",
        file="singleton/runtime/registry.py",
        old="            await busy.at_rest()\n            await asyncio.sleep(0)",
        new="            break",
        breaks="closing a client closes the connection under a hold, so its lease is not released",
    ),
    Mutant(
        name="forgetting takes locks in use",
        file="singleton/runtime/registry.py",
        old="                if each.forgettable:\n                    del self[oldest]",
        new="                if True:\n                    del self[oldest]",
        breaks="a lock that is in use is forgotten, and made once more beside itself",
    ),
    Mutant(
        name="a closed door tells nobody",
        file="singleton/runtime/closing.py",
        old="                entry[0].call_soon_threadsafe(self._show_out, entry)",
        new="                entry[1].when()",
        breaks="a waiter of a closed client waits on",
    ),
    Mutant(
        name="a closed door is passed",
        file="singleton/runtime/closing.py",
        old="                    self.check(name)\n                    return await wait()",
        new="                    return await wait()",
        breaks="a call that began just before its client was closed waits on behind the door",
    ),
    Mutant(
        name="dropped holds are kept",
        file="singleton/runtime/hold_end.py",
        old="        loop.call_soon_threadsafe(_end, lock, record, context=context)",
        new="        pass",
        breaks="a hold that was dropped without a release keeps its lock",
    ),
    Mutant(
        name="re-entry is not seen where the lock was tried first",
        file="singleton/runtime/reentry.py",
        old="        if hold is not None and hold.record is record and each.caller == caller:\n",
        new="        if hold is not None and hold.record is record and each.caller != caller:\n",
        breaks="a caller that asks again for its own lock waits for itself",
    ),
    Mutant(
        name="sets go by the order of their names as given",
        file="singleton/clients/request_events.py",
        old="sorted(addresses, key=lambda each: each.name)",
        new="list(addresses)",
        breaks="two sets in other orders wait for each other for ever",
        among="clients",
    ),
    Mutant(
        name="half a set stays taken",
        file="singleton/base/several.py",
        old="give_back(hold)) for hold in holds.values()]",
        new="give_back(hold)) for hold in list(holds.values())[1:]]",
        breaks="a set that could not be had keeps its first lock",
    ),
    Mutant(
        name="a leader who never entered goes on",
        file="singleton/clients/leadership.py",
        old="            with suppress(SingletonError):\n                await to_its_end(",
        new="            with suppress(SingletonError):\n                False and await to_its_end(",
        breaks="a leadership that was cancelled while it was entered takes the lock, and nobody leads",
    ),
    Mutant(
        name="a leader steps down without giving back",
        file="singleton/clients/leadership.py",
        old="        self._hold = None\n        await self._registry.release(hold)",
        new="        self._hold = None",
        breaks="a leadership that is over keeps the lock",
    ),
    Mutant(
        name="a worker keeps the lock of a tick that was cancelled",
        file="singleton/clients/periodic_worker.py",
        old="        finally:\n            await locks.release_async(hold)",
        new=(
            "        except Exception:\n"
            "            await locks.release_async(hold)\n"
            "            raise\n"
            "        else:\n"
            "            await locks.release_async(hold)"
        ),
        breaks="a worker that is cancelled in its work never gives its lock back",
    ),
    Mutant(
        name="a worker ends at the first trouble",
        file="singleton/clients/periodic_worker.py",
        old="        if isinstance(error, LockClosed):\n            raise error",
        new="        if isinstance(error, Exception):\n            raise error",
        breaks="a worker ends for good when the storage does not answer once",
    ),
    Mutant(
        name="a semaphore stops at its first page",
        file="singleton/locking/semaphore.py",
        old="            if not batch:\n                return True",
        new="            if not batch or batch[0] >= 2:\n                return True",
        breaks="all slots count as held when two of them are",
    ),
    Mutant(
        name="stand-ins outlive those they stand in for",
        file="singleton/locking/semaphore.py",
        old="        for task in (*self._stand_ins.values(), *([self._server] if self._server else [])):",
        new="        for task in [self._server] if self._server else []:",
        breaks="a slot is waited for on behalf of nobody, for ever",
    ),
    Mutant(
        name="a held of an earlier wait counts",
        file="singleton/locking/phase.py",
        old="        return self._seen_taken >= since",
        new="        return self._seen_taken >= 0",
        breaks="silent storage counts as contention if the lock was once held",
        by=("tests/unit/locking/test_lock_storage.py",),
        why="it takes storage that is silent for the whole of a wait, and was not for the one before",
    ),
    Mutant(
        name="a lapsed lease is handed on",
        file="singleton/locking/lock.py",
        old="(waiter := self._line.first()) is not None and lease.alive():",
        new="(waiter := self._line.first()) is not None and lease.lost is None:",
        breaks="the next waiter gets a lease that expired in the same step",
        by=("tests/unit/locking/test_lock_loss.py",),
        why="it takes a section that ends in the step in which its lease expires",
    ),
    Mutant(
        name="a frozen hold tells no loss",
        file="singleton/base/hold.py",
        old="        if (reason := self.reason) is not None:\n            self.fire(reason)\n        self.finish(",
        new="        self.finish(",
        breaks="a hold that is frozen after its deadline never tells that it was lost",
        by=("tests/unit/base/test_hold.py",),
        why="it takes a section that ends in the step in which its lease expires, before the timer",
    ),
    Mutant(
        name="a gate stays shut",
        file="singleton/locking/record.py",
        old="            self.guard.inside = None\n",
        new="            pass\n",
        breaks="a section that has ended seems to go on, and nobody of its process gets the lock",
        among="skip",  # others stand still, which takes ten seconds to notice
    ),
    Mutant(
        name="lines are logged where they come up",
        file="singleton/runtime/lock_thread.py",
        old="            self._lines.put(say)\n\n",
        new="            say()\n\n",
        breaks="a log handler that blocks stops every lock of the process",
    ),
    Mutant(
        name="a forked child keeps a guard",
        file="singleton/runtime/calls.py",
        old="        for hold in (*self.registry.acquired,):",
        new="        for hold in ():",
        breaks="a forked child hangs if the guard of a leader's hold was acquired",
        by=("tests/unit/runtime/test_fork.py",),
        why="no virtual world forks",
    ),
)
