"""Planted bugs: each a small change of the shipped source that breaks one promise, and who must notice.

``old`` must stand in ``file`` exactly once, or the mutant is out of date and its test says so.
"""

from __future__ import annotations

from tests.simulation.planted.arguments import ARGUMENTS
from tests.simulation.planted.bounds import BOUNDS
from tests.simulation.planted.clients import CLIENTS
from tests.simulation.planted.coalescing import COALESCING
from tests.simulation.planted.deferrals import DEFERRALS
from tests.simulation.planted.failovers import FAILOVERS
from tests.simulation.planted.inboxes import INBOXES
from tests.simulation.planted.listeners import LISTENERS
from tests.simulation.planted.looks import LOOKS
from tests.simulation.planted.mutant import Mutant
from tests.simulation.planted.names import NAMES
from tests.simulation.planted.nested import NESTED
from tests.simulation.planted.once import ONCE
from tests.simulation.planted.patterns import PATTERNS
from tests.simulation.planted.remembered import REMEMBERED
from tests.simulation.planted.renewals import RENEWALS, RENEWALS_FILE
from tests.simulation.planted.states import STATES
from tests.simulation.planted.stores import STORES

LEASE = "singleton/locking/lease.py"
ACQUISITION = "singleton/locking/acquisition.py"
LOCK = "singleton/locking/lock.py"
LINE = "singleton/locking/line.py"
_UNSTAMPED = """\
        except BaseException:
            self.unusable = began, await self.give_back(lease)
            raise
"""
STATE = "singleton/locking/phase.py"
HOLD = "singleton/base/hold.py"
SEMAPHORE = "singleton/locking/semaphore.py"
LEADERSHIP = "singleton/clients/leadership.py"
CAMPAIGN = "singleton/locking/campaign.py"
CANDIDACY = "singleton/functions/candidacy.py"
FENCING = "singleton/locking/fencing.py"
STAMPS = "singleton/stores/stamps.py"
DECLARATION = "singleton/functions/declaration.py"
GUARD = "singleton/functions/guard.py"
ONTHREAD = "singleton/runtime/calls.py"
CANCELLING = "singleton/runtime/cancellation.py"
DECORATOR = "singleton/decorator.py"
REGISTRY = "singleton/runtime/registry.py"
PROTOCOL = "singleton/stores/protocol.py"
MEMORY = "singleton/testing/storage/memory_store.py"
QUEUE = "simulator/host/triggers/queue.py"
SEMAPHORE_TESTS = "tests/unit/locking/test_semaphore.py"

MUTANTS: tuple[Mutant, ...] = (
    # --- the lease ---
    Mutant(
        name="deadline ignored",
        file=LEASE,
        old='            self.lose("expired")\n            return\n',
        new="            return\n",
        breaks="nobody declares a lease lost whose renewals hang",
    ),
    Mutant(
        name="deadline counted from the acquire's reply",
        file=ACQUISITION,
        old="sent=sent, period=of.period",
        new="sent=asyncio.get_running_loop().time(), period=of.period",
        breaks="the deadline is later than the service's by the time that the reply took",
    ),
    Mutant(
        name="deadline counted from the renewal's reply",
        file=LEASE,
        old="            self._renewed(sent, replied)\n",
        new="            self._renewed(self.loop.time(), replied)\n",
        breaks="the deadline is later than the service's by the time that the reply took",
    ),
    Mutant(
        name="no margin",
        file=LEASE,
        old="MARGIN = 1 / 15\n",
        new="MARGIN = 0.0\n",
        breaks="a clock that is slow makes the deadline too late",
    ),
    Mutant(
        name="half a margin",
        file=LEASE,
        old="MARGIN = 1 / 15\n",
        new="MARGIN = 1 / 30\n",
        breaks="a clock that is slow by more than a thirtieth makes the deadline too late",
    ),
    Mutant(
        name="another's id accepted",
        file=LEASE,
        old="        if replied != self.id:\n",
        new="        if False:\n",
        breaks="a renewal that was answered for another's lease counts as ours (A-1)",
        by=("tests/unit/locking/test_lease_renewal.py",),
        why="the documented service never answers so; Azurite does, for a lease that ours would have outlived",
    ),
    Mutant(
        name="mismatch read as transient",
        file=LEASE,
        old="            if failure.loss is not None:\n",
        new="            if failure.loss is not None and failure.status != 409:\n",
        breaks="a lost lease counts as held until its deadline",
    ),
    Mutant(
        name="blob gone read as transient",
        file=LEASE,
        old="            if failure.loss is not None:\n",
        new="            if failure.loss is not None and failure.status != 404:\n",
        breaks="a lease whose blob was deleted counts as ours until its deadline",
    ),
    Mutant(
        name="any failed renewal is a loss",
        file=LEASE,
        old="            if failure.loss is not None:\n                self.lose(failure.loss, failure)\n",
        new='            self.lose(failure.loss or "expired", failure)\n',
        breaks="one lost message ends a hold that was good (B2)",
    ),
    Mutant(
        name="no renewal after a failed one",
        file=LEASE,
        old="            self._pause = self._retry_delay(self._pause, failure, sent)\n",
        new="            return math.inf\n",
        breaks="one lost message ends a hold that was good (B1)",
    ),
    Mutant(
        name="renewals come too late",
        file=LEASE,
        old="super().__init__(sent + self._interval, contextvars.copy_context())\n",
        new="super().__init__(sent + period * 0.95, contextvars.copy_context())\n",
        breaks="the first renewal is due after the deadline",
    ),
    Mutant(
        name="a renewal may hang until the deadline",
        file=LEASE,
        old="        return min(self._deadline, sent + min(_LONGEST_CALL, max(_SHORTEST_CALL, left / 2)))\n",
        new="        return self._deadline\n",
        breaks="one lost reply leaves no time for another try (B5)",
    ),
    Mutant(
        name="failed renewals are asked again at the same pace",
        file=LEASE,
        old="        delay = max(_FASTEST_RETRY, min(delay / 2, left / 4))\n",
        new="        delay = self._period / 2\n",
        breaks="one lost message ends a hold that was good (W-71)",
        by=("tests/unit/locking/test_lease_renewal.py",),
        why="the last try, just before the deadline, saves the lease as long as it is answered",
    ),
    Mutant(
        name="Retry-After is obeyed past the deadline",
        file=LEASE,
        old="        return min(max(delay, failure.retry_after or 0.0), max(last_try, _FASTEST_RETRY))\n",
        new="        return max(delay, failure.retry_after or 0.0)\n",
        breaks="throttling ends a hold that one more request would have kept",
        by=("tests/unit/locking/test_lease_renewal.py",),
        why="it takes a Retry-After that ends after the deadline while the service would have answered before it",
    ),
    Mutant(
        name="a lost lease comes back",
        file=LEASE,
        old="        elif self.overdue():\n"
        '            self.lose("expired", self.cause)\n'
        "        elif self.lost is None:\n"
        "            self.cause = None\n"
        "            self._extend(sent)\n",
        new="        else:\n"
        "            self.lost = None\n"
        "            self.cause = None\n"
        "            self._extend(sent)\n",
        breaks="a reply that arrives late revives a hold that its owner was told is lost (B22)",
        by=("tests/unit/locking/test_lease_deadline.py",),
        why="the lease is still the service's, too: nobody else can have it",
    ),
    Mutant(
        name="renewer not stopped",
        file=LEASE,
        old="        self._stopped = True\n        self.set_timer()\n"
        "        for each in requests:\n            each.due, each.queued = math.inf, 0\n",
        new="",
        breaks="a lease that was released is renewed for ever",
    ),
    Mutant(
        name="renewer not joined",
        file=RENEWALS_FILE,
        old="        await asyncio.wait({task})\n",
        new="",
        breaks="a renewal may be on its way when the lease is released (B22)",
        by=("tests/unit/locking/test_lease_stop.py",),
        why="on the simulated network a cancelled request ends at once",
    ),
    Mutant(
        name="fence left armed",
        file=LEASE,
        old="        self._stopped = True\n        self.set_timer()\n",
        new="        self._stopped = True\n",
        breaks="a timer outlives its lease",
        among="mutex",
    ),
    Mutant(
        name="watchers not told",
        file=LEASE,
        old="        if self.when_lost is not None:\n            self.when_lost(reason)\n",
        new="",
        breaks="the body of a lost hold runs on",
    ),
    Mutant(
        name="renewed without a later deadline",
        file=LEASE,
        old="            self._extend(sent)\n",
        new="            self._granted = sent\n",
        breaks="a lease that was renewed is declared lost at its first deadline",
    ),
    Mutant(
        name="renewed once only",
        file=LEASE,
        old="            self._renewed(sent, replied)\n            self._pause = self._interval\n",
        new="            self._renewed(sent, replied)\n            self._pause = math.inf\n",
        breaks="a hold ends in the middle of a long body",
    ),
    Mutant(
        name="time-outs end the renewing",
        file=LEASE,
        old="            replied = await self._store.renew(self.name, self.id)\n"
        "        except (Exception, asyncio.CancelledError) as error:\n",
        new="            replied = await self._store.renew(self.name, self.id)\n"
        "        except StoreFailure as error:\n",
        breaks="one lost message ends a hold that was good",
    ),
    *RENEWALS,
    *BOUNDS,
    *STATES,
    *NESTED,
    *ARGUMENTS,
    *COALESCING,
    # --- asking for it and giving it back ---
    Mutant(
        name="lost reply not asked again",
        file=ACQUISITION,
        old="doubt or failure.leaves_doubt\n            raise\n",
        new="False\n            self._id = self._new_id()\n            raise\n",
        breaks="an acquire whose reply was lost locks everybody out for a period (B7)",
    ),
    Mutant(
        name="a later no settles an earlier doubt",
        file=ACQUISITION,
        old="            self.in_doubt = doubt or failure.leaves_doubt",
        new="            self.in_doubt = failure.leaves_doubt",
        breaks="a late request acquires the lease for a caller that has left",
        among="mixed",
    ),
    Mutant(
        name="given up without release",
        file=ACQUISITION,
        old="if doubt and not await self._release(lease_id):",
        new="if doubt is None:",
        breaks="an acquire that was carried out for a caller that left locks everybody out for a period",
    ),
    Mutant(
        name="nothing given up",
        file=LOCK,
        old="        finally:\n            await self._acquisition.give_up()\n",
        new="",
        breaks="an acquire that was carried out for a caller that left locks everybody out for a period",
    ),
    Mutant(
        name="id reused after release",
        file=ACQUISITION,
        old="        self._id = self._new_id()\n        try:\n",
        new="        try:\n",
        breaks="a release that arrives late ends the next lease of that id (B8)",
    ),
    Mutant(
        name="one id for all",
        file=ACQUISITION,
        old='        bits = f"{self._rng.getrandbits(128):032x}"\n',
        new='        bits = f"{12345:032x}"\n',
        breaks="hosts with the same lease id are one to the service (B8)",
    ),
    Mutant(
        name="release before drain",
        file=ACQUISITION,
        old="            await lease.stop()\n",
        new="            await self._release(lease.id)\n            await lease.stop()\n",
        breaks="a renewal may follow the release (B22)",
    ),
    Mutant(
        name="never released",
        file=ACQUISITION,
        old=" or await self._release(lease.id)\n",
        new=" or True\n",
        breaks="everybody waits until the lease expires",
    ),
    Mutant(
        name="a release that fails is not repeated",
        file=ACQUISITION,
        old="            pause *= 2\n",
        new="            break\n",
        breaks="one lost message locks everybody out for a period",
    ),
    Mutant(
        name="a release that hangs is not repeated",
        file=ACQUISITION,
        old="            except Exception as error:  # noqa: BLE001 - whatever a store raises, a release must end\n",
        new="            except TimeoutError:\n                break\n            except Exception as error:\n",
        breaks="one lost message locks everybody out for a period",
    ),
    Mutant(
        name="release of another's lease",
        file=ACQUISITION,
        old="                    await self._store.release(self._name, lease_id)\n",
        new="                    await self._store.break_(self._name)\n",
        breaks="the current holder loses its lease",
    ),
    Mutant(
        name="not stamped, not given back",
        file=ACQUISITION,
        old="            self.unusable = began, await self.give_back(lease)\n            raise\n",
        new="            raise\n",
        breaks="a lease whose stamping failed is renewed for ever (B6)",
    ),
    Mutant(
        name="a stamp that is cut leaves its lease",
        file=ACQUISITION,
        old=_UNSTAMPED,
        new=_UNSTAMPED.replace("BaseException", "Exception"),
        breaks="a process that closes while the storage is slow leaves a lease to lapse",
        among="small-hand-over",
    ),
    Mutant(
        name="a lease that is given back is cut before its release",
        file=ACQUISITION,
        old="        finally:  # also after a cut",
        new="        except TypeError:\n            raise\n        else:  # not after a cut",
        breaks="a process that closes while the storage is slow leaves a lease to lapse",
        among="small-hand-over",
    ),
    Mutant(
        name="not stamped, and used",
        file=ACQUISITION,
        old=_UNSTAMPED,
        new="        except StoreFailure:\n            pass\n",
        breaks="a section runs under the token of an earlier one",
    ),
    Mutant(
        name="missing blob not made",
        file=ACQUISITION,
        old='                    if created or failure.meaning != "missing":\n                        raise\n',
        new="                    raise\n",
        breaks="a lock that was never used can't be acquired",
    ),
    Mutant(
        name="no time-out for requests",
        file=PROTOCOL,
        old="        async with asyncio.timeout(seconds):\n            return await request\n",
        new="        return await request\n",
        breaks="a lost message is waited for for ever",
    ),
    Mutant(
        name="our own lease released as a doubtful one",
        file=ACQUISITION,
        old="        finally:\n            self.in_doubt = False\n        return lease",
        new="        return lease",
        breaks="a lease that is in use is released",
    ),
    Mutant(
        name="an id that was given up is used again",
        file=ACQUISITION,
        old="        lease_id, self._id = self._id, self._new_id()\n",
        new="        lease_id = self._id\n",
        breaks="a release that arrives late ends the next lease of that id (B8)",
    ),
    Mutant(
        name="requests may take a minute",
        file=ACQUISITION,
        old="_CALL = 5.0",
        new="_CALL = 50.0",
        breaks="a waiter does not ask again while it waits for the answer to a lost request",
    ),
    # --- what answers mean ---
    Mutant(
        name="403 read as contention",
        file=PROTOCOL,
        old='        return "denied"\n',
        new='        return "held"\n',
        breaks="a caller without access waits for ever, or skips (B12)",
    ),
    Mutant(
        name="403 read as transient",
        file=PROTOCOL,
        old='        return "denied"\n',
        new='        return "transient"\n',
        breaks="a caller without access waits for a minute before it is told",
    ),
    Mutant(
        name="503 read as contention",
        file=PROTOCOL,
        old='    if status == 404:\n        return "missing"\n',
        new='    if status == 503:\n        return "held"\n    if status == 404:\n        return "missing"\n',
        breaks="a timer is skipped although nobody has the lock",
    ),
    Mutant(
        name="no answer read as contention",
        file=PROTOCOL,
        old='    if status == 404:\n        return "missing"\n',
        new='    if status is None:\n        return "held"\n    if status == 404:\n        return "missing"\n',
        breaks="a timer is skipped although nobody has the lock",
    ),
    Mutant(
        name="mismatch not understood",
        file=PROTOCOL,
        old='    "LeaseIdMismatchWithLeaseOperation": "stolen",\n',
        new="",
        breaks="a lost lease counts as held until its deadline",
    ),
    Mutant(
        name="broken lease not understood",
        file=PROTOCOL,
        old='    "LeaseIsBrokenAndCannotBeRenewed": "broken",\n',
        new="",
        breaks="a lease that an operator broke counts as ours until its deadline",
    ),
    Mutant(
        name="held not understood",
        file=PROTOCOL,
        old='    **dict.fromkeys(("LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"), "held"),\n',
        new='    **dict.fromkeys(("LeaseIsBreakingAndCannotBeAcquired",), "held"),\n',
        breaks="contention fails the invocation",
    ),
    Mutant(
        name="500 read as a denial",
        file=PROTOCOL,
        old="    if status in (401, 403):",
        new="    if status in (401, 403, 500):",
        breaks="trouble that would pass ends all waits",
    ),
    # --- tokens ---
    Mutant(
        name="token not increased",
        file=FENCING,
        old="        epoch = self._epoch + 1\n",
        new="        epoch = self._epoch\n",
        breaks="two holders have the same token",
    ),
    Mutant(
        name="token from a clock",
        file=FENCING,
        old="        epoch = self._epoch + 1\n",
        new='        epoch = int(__import__("asyncio").get_running_loop().time() * 1000)\n',
        breaks="a host whose clock is behind gets a smaller token than the one before it",
    ),
    Mutant(
        name="token from memory",
        file=FENCING,
        old="epoch = max(self._epoch, self._highest.epoch, epoch_in(state))",
        new="epoch = self._epoch if self._epoch > 0 else epoch_in(state)",
        breaks="a host does not see the tokens that others got since its last turn",
    ),
    Mutant(
        name="epochs begin at 0",
        file=STAMPS,
        old="        return state.modified * EPOCHS_A_SECOND\n",
        new="        return 0\n",
        breaks="tokens begin anew when somebody deletes the blob",
    ),
    Mutant(
        name="one token for a whole lease",
        file=FENCING,
        old="        return self._epoch * SECTIONS + self._section\n",
        new="        return self._epoch * SECTIONS + 1\n",
        breaks="sections under one lease have the same token",
    ),
    Mutant(
        name="epochs overlap",
        file=FENCING,
        old="        return self._epoch * SECTIONS + self._section\n",
        new="        return self._epoch + self._section\n",
        breaks="the second section of one lease has the token of the first of the next",
    ),
    Mutant(
        name="stamps have no condition",
        file=MEMORY,
        old="        if name not in self._blobs or self._blobs[name].etag != etag:\n",
        new="        if name not in self._blobs:\n",
        breaks="a stamp that arrives late, under a lease that arrived late, puts the epoch back",
        by=("tests/unit/locking/test_fencing.py",),
        why="it takes two requests that are late, and others' turns between; worlds made for it find it",
    ),
    # --- the queue of one process ---
    Mutant(
        name="waiter's wake-up lost",
        file=LINE,
        old="            if self._waking is not None:\n                self._wake()\n",
        new="",
        breaks="the next caller waits for a poll that was meant for a caller that left",
        by=("tests/unit/locking/test_lock_timeouts.py",),
        why="a caller that asks once must come within a poll of the last one that left: worlds show it too seldom",
    ),
    Mutant(
        name="each set of options has a gate of its own",
        file=REGISTRY,
        old="                guard=self._guards.of(address.blob),\n",
        new="",
        breaks="a section that outlived its lease runs beside one of the same lock under other options",
        by=("tests/unit/runtime/test_registry.py",),
        why="the apps of worlds have one set of options for each lock",
    ),
    Mutant(
        name="handoff without deadline check",
        file=LOCK,
        old="while (waiter := self._line.first()) is not None and lease.alive():",
        new="while (waiter := self._line.first()) is not None:",
        breaks="a lost lease is handed to the next in line",
    ),
    Mutant(
        name="sections overlap",
        file=LOCK,
        old="                await record.until_ended()\n",
        new="                await asyncio.wait({record.ended}, timeout=3.0)\n"
        "                self.guard = BlobGuard()\n",
        breaks="the next in line enters while the last is inside",
    ),
    Mutant(
        name="handed on after a loss while the body runs",
        file=LOCK,
        old="                await record.until_ended()\n",
        new="                await asyncio.wait({record.ended, asyncio.ensure_future(record.lost._wait_async())},"
        " return_when=asyncio.FIRST_COMPLETED)\n",
        breaks="a body that outlives its lease is joined by the next one of its process",
    ),
    Mutant(
        name="stand-back missing",
        file=LOCK,
        old="                await self._line.sleep_until(self._phases.aside_until)\n",
        new="                pass\n",
        breaks="a busy process keeps the lock from all others",
    ),
    Mutant(
        name="no end of one's turn",
        file=LOCK,
        old="                    if self._phases.had_its_run:\n                        break\n",
        new="",
        breaks="a busy process keeps the lock from all others",
    ),
    Mutant(
        name="last come, first served",
        file=LINE,
        old="        while (first := next(iter(self._waiters), None)) is not None and first.granted.done():\n",
        new="        while (first := next(reversed(self._waiters), None)) is not None and first.granted.done():\n",
        breaks="the first waiter is served last",
    ),
    Mutant(
        name="time-outs ignored",
        file=LINE,
        old="        alarm = None if limit == math.inf else loop.call_at(waiter.deadline, self._time_is_up, waiter)\n",
        new="        alarm = None\n",
        breaks="a caller with a timeout waits for ever",
    ),
    Mutant(
        name="once is again and again",
        file=LINE,
        old="            if waiter.once:\n                waiter.refuse",
        new="            if False:\n                waiter.refuse",
        breaks="a timer that should skip waits",
    ),
    Mutant(
        name="contention for everybody",
        file=LINE,
        old="            if waiter.once:\n                waiter.refuse",
        new="            if waiter:\n                waiter.refuse",
        breaks="a caller that should wait is refused",
    ),
    Mutant(
        name="denied goes on waiting",
        file=LINE,
        old='            case "denied" | "refused":\n',
        new='            case "denied" | "refused" if self.closed:\n',
        breaks="a caller without access waits for ever (B12)",
    ),
    Mutant(
        name="endless patience",
        file=STATE,
        old="        return self.loop.time() - self._failing_since >= PATIENCE\n",
        new="        return False\n",
        breaks="storage without an answer is waited for for ever",
    ),
    Mutant(
        name="a section that was cancelled at its grant goes on",
        file=LINE,
        old="                waiter.hold.record.end()\n",
        new="                pass\n",
        breaks="a lock that was granted when its caller was cancelled is never released",
    ),
    Mutant(
        name="cancellation swallowed by the lock",
        file=LINE,
        old="                waiter.hold.record.end()\n            raise\n",
        new="                waiter.hold.record.end()\n            return waiter.hold\n",
        breaks="a cancelled caller goes on with a hold that was released",
        by=("tests/unit/locking/test_lock_cancel.py",),
        why="the runtime releases what it acquires for a caller that has left",
    ),
    Mutant(
        name="polling without pause",
        file=LOCK,
        old="                pause = min(pause * 2, self._timing.longest_pause)\n",
        new="                pause = self._timing.poll_min / 10\n",
        breaks="waiters flood the service",
    ),
    Mutant(
        name="polls ever more seldom",
        file=LOCK,
        old="                pause = min(pause * 2, self._timing.longest_pause)\n",
        new="                pause *= 2\n",
        breaks="nobody asks for a free lock",
    ),
    Mutant(
        name="given back with the body inside",
        file=LOCK,
        old="                if self._running() is None:\n"
        "                    self._phases.given_back(await self._acquisition.give_back(lease))\n",
        new="                if True:\n"
        "                    self._phases.given_back(await self._acquisition.give_back(lease))\n",
        breaks="a process that is told to stop lets others in before its body has ended (B10)",
    ),
    Mutant(
        name="ended holds not settled",
        file=LOCK,
        old="                    last.settle()\n",
        new="",
        breaks="a release that handed the lease on never returns",
    ),
    Mutant(
        name="every lease is a turn of its own",
        file=STATE,
        old="        if self._others_had_theirs:\n",
        new="        if True:\n",
        breaks="a busy process keeps the lock from all others",
    ),
    Mutant(
        name="no last look",
        file=LINE,
        old="                return  # no request was sent for the waiter yet, and later is too late\n",
        new="                pass\n",
        breaks="a caller that asks once while others are refused gets no answer in time",
    ),
    # --- holds ---
    Mutant(
        name="a hold does not look at the clock",
        file=HOLD,
        old="        if self._reason is None and lease is not None and lease.loop.time() >= lease.deadline:\n",
        new="        if False and lease is not None and lease.loop.time() >= lease.deadline:\n",
        breaks="a process that slept believes in its hold until a timer fires (B3)",
    ),
    Mutant(
        name="a lost hold forgets",
        file=HOLD,
        old="            callbacks, waiters = [*self._callbacks], [*self._waiters]\n",
        new="            callbacks, waiters = [], [*self._waiters]\n",
        breaks="nobody is told of a loss",
    ),
    Mutant(
        name="raise_if_lost never raises",
        file=HOLD,
        old="        self.lost.raise_if_over()\n",
        new="        return\n",
        breaks="a body that asks is told that all is well",
    ),
    # --- guards ---
    Mutant(
        name="body not cancelled when lost",
        file=CANCELLING,
        old="        if not (self._is_over or self._ours):\n",
        new="        if False:\n",
        breaks="an async body runs on without its lock",
    ),
    Mutant(
        name="entered after a loss",
        file=GUARD,
        old="            hold.raise_if_lost()\n            result = ",
        new="            result = ",
        breaks="a body begins although the lock was lost before it",
    ),
    Mutant(
        name="success without the lock",
        file=GUARD,
        old="            hold.raise_if_lost()\n            return result\n",
        new="            return result\n",
        breaks="an invocation succeeds although its lock was lost",
    ),
    Mutant(
        name="cancellation swallowed by the guard",
        file=CANCELLING,
        old="        if self._watch.end(error):\n",
        new="        ours = self._watch.end(error)\n"
        "        if not ours and isinstance(error, asyncio.CancelledError):\n"
        "            return True\n        if ours:\n",
        breaks="a cancelled invocation ends as if nothing had been",
    ),
    Mutant(
        name="loss reaches the worker as a cancellation",
        file=CANCELLING,
        old="        return self._task.uncancel() <= self._before and",
        new="        return False and",
        breaks="the worker never answers for the invocation",
    ),
    Mutant(
        name="a lock that nobody is told of",
        file=GUARD,
        old='            self._report("acquired", call, hold)\n',
        new="",
        breaks="a body's start is told, and that of its hold is not",
    ),
    Mutant(
        name="never released by sync functions",
        file=ONTHREAD,
        old="        self._locks.release(hold)\n",
        new="        pass\n",
        breaks="a lock is kept for ever",
    ),
    Mutant(
        name="a body that fails keeps its lock",
        file=GUARD,
        old="        finally:\n            try:\n                await locks.release_async(hold)\n",
        new="        except RuntimeError:\n"
        '            locks.__dict__.setdefault("kept", []).append(hold)\n            hold = None\n'
        "            raise\n        finally:\n            try:\n"
        "                await locks.release_async(hold) if hold else None\n",
        breaks="a lock is kept for ever",
    ),
    Mutant(
        name="released before the body",
        file=GUARD,
        old="            result = await self._inside(call, hold, body, cancel=cancel)\n",
        new="            await locks.release_async(hold)\n"
        "            result = await self._inside(call, hold, body, cancel=cancel)\n",
        breaks="the body runs without its lock",
    ),
    Mutant(
        name="wait skips",
        file=GUARD,
        old='            if policy != "skip":\n                raise contended\n',
        new="",
        breaks="a message is deleted although nothing was done",
    ),
    Mutant(
        name="skip fails",
        file=GUARD,
        old='            if policy != "skip":\n                raise contended\n',
        new="            raise contended\n",
        breaks="a timer that finds the lock held is reported as a failure",
    ),
    Mutant(
        name="storage failures skip",
        file=GUARD,
        old="(self._acquisition(call, self.wait, others))\n        except LockNotAcquired as error:\n",
        new="(self._acquisition(call, self.wait, others))\n        except Exception as error:\n",
        breaks="a timer is skipped although nobody has the lock (B12)",
    ),
    Mutant(
        name="the payload's scope is ignored",
        file=DECLARATION,
        old="            scopes.append(value_at(self.scope, payload.read(), dotnet=self.layout.dotnet))\n",
        new='            scopes.append("all")\n',
        breaks="all keys exclude one another",
    ),
    Mutant(
        name="every message has a scope of its own",
        file=DECLARATION,
        old="            scopes.append(value_at(self.scope, payload.read(), dotnet=self.layout.dotnet))\n",
        new="            scopes.append(str(id(payload)))\n",
        breaks="nothing excludes anything",
    ),
    Mutant(
        name="guards that don't guard",
        file=GUARD,
        old="        if locks is None:\n            if not self.switched_off:",
        new="        if locks is not None:\n            if not self.switched_off:",
        breaks="bodies run without locks",
    ),
    # --- the service's model ---
    Mutant(
        name="leases that exclude nobody",
        file=MEMORY,
        old='        if state == "leased" and blob.lease_id != lease_id:\n',
        new='        if state == "leased" and not lease_id:\n',
        breaks="two have the lease at once",
    ),
    Mutant(
        name="leases that never end",
        file=MEMORY,
        old='        return "leased" if now < self.expires else "expired"\n',
        new='        return "leased"\n',
        breaks="a crash locks everybody out for ever",
    ),
    Mutant(
        name="anybody may release",
        file=MEMORY,
        old="        if blob.lease_id != lease_id:\n"
        '            raise StoreFailure(409, "LeaseIdMismatchWithLeaseOperation")\n'
        "        return blob\n",
        new="        return blob\n",
        breaks="a late release ends another's lease",
    ),
    Mutant(
        name="anybody may write",
        file=MEMORY,
        old='    if blob.lease_id != lease_id:\n        raise StoreFailure(412, "LeaseIdMismatchWithBlobOperation")\n',
        new="",
        breaks="a holder that lost the lease can still write its token",
        by=("tests/conformance/test_memory_store.py",),
        why="few worlds have a write that arrives when its lease is over, and none of them harms",
    ),
    Mutant(
        name="broken leases live on",
        file=MEMORY,
        old='        if blob.state(now) in ("breaking", "broken"):\n',
        new='        if blob.state(now) in ("breaking",):\n',
        breaks="a broken lease can be renewed",
    ),
    Mutant(
        name="writes leave no trace",
        file=MEMORY,
        old="        blob.metadata, blob.etag, blob.modified = dict(metadata), self._etag(), int(now)\n",
        new="        blob.metadata, blob.modified = dict(metadata), int(now)\n",
        breaks="the ETag does not tell that somebody else wrote",
    ),
    Mutant(
        name="renewals that renew nothing",
        file=MEMORY,
        old="        blob.expires = now + blob.duration\n",
        new="        blob.expires = min(blob.expires, now + blob.duration)\n",
        breaks="a lease ends although it is renewed",
    ),
    Mutant(
        name="asking again does not prolong",
        file=MEMORY,
        old="        blob.lease_id, blob.expires, blob.breaks = lease_id, now + blob.duration, None\n",
        new="        blob.lease_id, blob.breaks = lease_id, None\n"
        '        blob.expires = blob.expires if state == "leased" else now + blob.duration\n',
        breaks="a lease that was asked for twice ends earlier than its owner believes",
    ),
    Mutant(
        name="a blob is made over one that is there",
        file=MEMORY,
        old="        if name in self._blobs:\n            return None\n",
        new="",
        breaks="to make the blob again ends the lease of its holder",
    ),
    # --- the fake host ---
    Mutant(
        name="message deleted on failure",
        file=QUEUE,
        old="        if await self._run_renewing(message):\n            await self._complete(message)\n",
        new="        if await self._run_renewing(message) or True:\n            await self._complete(message)\n",
        breaks="a message whose invocation failed is lost (W-84)",
    ),
    Mutant(
        name="message deleted before its function ends",
        file=QUEUE,
        old="        if await self._run_renewing(message):\n            await self._complete(message)\n",
        new="        await self._complete(message)\n        if await self._run_renewing(message):\n            pass\n",
        breaks="a message whose host crashes is lost",
    ),
    # --- semaphore and leadership ---
    Mutant(
        name="one slot too many",
        file=SEMAPHORE,
        old="        self._slots = Slots(limit, rng)\n",
        new="        self._slots = Slots(limit + 1, rng)\n",
        breaks="one more than the limit is inside",
    ),
    Mutant(
        name="a slot that was got for nobody is kept",
        file=SEMAPHORE,
        old="            hold.record.end()\n            return\n",
        new="            return\n",
        breaks="a slot that was acquired for a caller that has left is never released",
        by=(
            "tests/unit/locking/test_semaphore_once.py::test_a_slot_that_is_got_for_somebody_who_has_left_is_given_back",
        ),
        why="it takes two waiters and a slot for each in one instant, as one of them leaves",
    ),
    Mutant(
        name="trouble is taken for full slots",
        file=LINE,
        old="        if phases.trouble is not None or not in_use:\n",
        new="        if phases.ours and not in_use:\n",
        breaks="storage that fails is told as contention",
        by=(f"{SEMAPHORE_TESTS}::test_storage_that_does_not_answer_is_told_after_a_minute_or_at_the_time_out",),
        why="in a world a slot is seldom free for all of a wait in which the storage fails",
    ),
    Mutant(
        name="slots polled ever more seldom",
        file=SEMAPHORE,
        old="                pause = min(pause * 2, self._timing.poll_max)\n",
        new="                pause *= 2\n",
        breaks="nobody asks for a free slot",
    ),
    Mutant(
        name="a candidate that meets the unforeseen gives up",
        file=CAMPAIGN,
        old="        except Exception as error:  # noqa: BLE001 - a credential may raise anything\n",
        new="        except SingletonError as error:\n",
        breaks="a store that can't be opened ends the campaign in silence, and every tick is skipped as a success",
        by=("tests/unit/functions/test_listener_trouble.py",),
        why="the stores of worlds open, and raise what stores may raise",
    ),
    Mutant(
        name="an outage is another listener",
        file=CANDIDACY,
        old="            self._trouble = self._lapsed()\n            self._begin_anew()\n",
        new="            self._trouble = None\n",
        breaks="a listener that lost its lease in an outage skips its ticks as successes until it has asked again",
    ),
    Mutant(
        name="leader not told of its loss",
        file=CAMPAIGN,
        old="            return await hold.lost\n",
        new="            return await asyncio.Event().wait()\n",
        breaks="a candidate that lost the leadership once never tries again, and is not told",
    ),
    Mutant(
        name="a lost leader leads on",
        file=LEADERSHIP,
        old="        return None if hold is None or hold.lost.is_set() else hold\n",
        new="        return hold\n",
        breaks="a leader that lost the leadership is told that it leads until the lock thread has run",
        by=("tests/unit/clients/test_leadership.py",),
        why="the lock thread runs at the same instant",
    ),
    Mutant(
        name="candidates sleep too long",
        file=CAMPAIGN,
        old="await self._pause(_PAUSE if self._recovery is None else self._recovery)",
        new="await self._pause(_PAUSE if self._recovery is None else self._recovery * 3)",
        breaks="nobody asks for a free leadership",
    ),
    Mutant(
        name="a resigned leader keeps the lock",
        file=CAMPAIGN,
        old="            await self._give_back(hold)\n",
        new="            self.kept = hold  # type: ignore[attr-defined]\n",
        breaks="a leadership is not released at the end of its block",
    ),
    # --- calls that are spared ---
    Mutant(
        name="a stamp is spared whoever had the lock since",
        file=FENCING,
        old="        return etag == self._etag and spare",
        new="        return bool(self._etag) and spare",
        breaks="tokens of an epoch that another process has left behind are given again",
    ),
    Mutant(
        name="an epoch that was only read gives tokens",
        file=FENCING,
        old="        self._section = SECTIONS\n        try:\n",
        new="        try:\n",
        breaks="two processes give tokens of one epoch when a stamp gets lost",
    ),
    Mutant(
        name="the owner's note puts the epoch back",
        file=FENCING,
        old="        await self.touch(lease_id, owner, held)\n",
        new="        await self._put(lease_id, owner, self._epoch - 1, held)\n",
        breaks="the next process counts on from an epoch that was used",
    ),
    Mutant(
        name="an epoch never runs out of tokens",
        file=FENCING,
        old="        return self.counts and (self._doubtful or self._section >= SECTIONS - 1)\n",
        new="        return False and self.counts\n",
        breaks="tokens of an epoch reach those of the next",
        by=("tests/unit/locking/test_cycle_calls.py",),
        why="no world lasts for a thousand sections of one lock",
    ),
    Mutant(
        name="a blob made again within a second begins anew",
        file=FENCING,
        old="if epoch <= given:  # ",
        new="if False:  # ",
        breaks="a process repeats its own tokens",
        among="images",
    ),
    Mutant(
        name="a copy of the process goes by what it remembers",
        file=FENCING,
        old="abs(self._clocks - before) <= _STEADY",
        new="abs(self._clocks - before) <= 1e9",
        breaks="two restored images of one process give the same token",
        among="images",
    ),
    *REMEMBERED,
    # --- around the lock ---
    *CLIENTS,
    *LOOKS,
    *NAMES,
    *LISTENERS,
    *DEFERRALS,
    *FAILOVERS,
    *PATTERNS,
    *ONCE,
    *INBOXES,
    # --- the store that production uses ---
    *STORES,
)
