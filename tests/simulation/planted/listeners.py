"""Planted bugs in listeners, candidacies and what a guard answers."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

LISTENER = "singleton/functions/listener.py"
CANDIDACY = "singleton/functions/candidacy.py"
CAMPAIGN = "singleton/locking/campaign.py"
GUARD = "singleton/functions/guard.py"
CONTENTION = "singleton/functions/contention.py"
WAITING = "singleton/functions/wait_limit.py"
ATTEMPTS = "singleton/dotnet/attempts.py"
ANSWERING = "singleton/functions/body_result.py"
INVOCATION = "singleton/functions/body_result.py"
CANCELLING = "singleton/runtime/cancellation.py"
LATE = "singleton/runtime/late_work.py"
CURRENT = "singleton/runtime/lock_thread.py"
OPENING = "singleton/runtime/accounts/stores.py"

LISTENERS: tuple[Mutant, ...] = (
    Mutant(
        name="a candidate remembers old trouble",
        file=CANDIDACY,
        old="            self._trouble = None\n            if self._recovery is None:\n",
        new="            if self._recovery is None:\n",
        breaks="invocations fail instead of being skipped, long after the storage answers again",
    ),
    Mutant(
        name="its own lease is another listener",
        file=CANDIDACY,
        old="            if error.reason == HERE:",
        new="            if error is self._trouble:",
        breaks="a listener that lost its lease in an outage and asks only once gives up for ever",
        by=("tests/unit/functions/test_listener_trouble.py",),
        why="it takes a time-out in place of recovery and an outage of half a minute after a run: two worlds in 15,000",
    ),
    Mutant(
        name="the first attempt is not waited for",
        file=CANDIDACY,
        old="                    await self._decided.wait()\n",
        new="                    pass\n",
        breaks="the first invocations of a process fail or are skipped although nobody else listens",
    ),
    Mutant(
        name="who waits for the outcome waits for ever",
        file=CANDIDACY,
        old="        self._patience = _ANSWER if wait is None else math.inf\n",
        new="        self._patience = math.inf\n",
        breaks="without recovery each invocation waits in a slot for as long as another process listens",
    ),
    Mutant(
        name="seats are not told of the loss",
        file=CANDIDACY,
        old="            record.lost.fire(reason)\n",
        new="            record.lost.freeze()\n",
        breaks="bodies under a listener go on without the lease",
        among="listener",
    ),
    Mutant(
        name="only the first seat is told of the loss",
        file=CANDIDACY,
        old="        for record in self._seats.copy():\n",
        new="        for record in [*self._seats][:1]:\n",
        breaks="of several bodies under a listener all but one go on without the lease",
    ),
    Mutant(
        name="the end does not wait for the bodies",
        file=CANDIDACY,
        old="not await self._drained(_DRAIN)",
        new="not await self._drained(0.0)",
        breaks="a process that ends takes the lock from its bodies at once",
    ),
    Mutant(
        name="the end takes the lease from a running body",
        file=CANDIDACY,
        old="                extra=self._about.fields,\n            )\n            return\n",
        new="                extra=self._about.fields,\n            )\n",
        breaks="a process that ends gives its lease back under a body that runs",
        by=("tests/unit/functions/test_listener.py",),
        why="its campaign waits for the bodies once more: only for those of minutes it ends too soon",
    ),
    Mutant(
        name="after a loss nobody waits for the bodies",
        file=CANDIDACY,
        old="        await self._drained(within=self._address.timing.period)\n",
        new="",
        breaks="the next lease of the process is shared with bodies that lost theirs",
        by=("tests/unit/functions/test_listener.py",),
        why="it takes a thread that goes on, and a network that is well again in the last second of a lease",
    ),
    Mutant(
        name="the silence is another listener",
        file=CANDIDACY,
        old="        if known is not None and not isinstance(known, LockNotAcquired):\n",
        new="        if known is not None and self._decided.is_set() and not isinstance(known, LockNotAcquired):\n",
        breaks="an invocation is told that another process listens, and nobody has said so",
    ),
    Mutant(
        name="a campaign ends with a lost lease",
        file=CAMPAIGN,
        old='                if reason == "closed":\n',
        new='                if reason in ("closed", "broken"):\n',
        breaks="a process whose lease an operator ended never listens again",
    ),
    Mutant(
        name="a refusal ends the campaign",
        file=CAMPAIGN,
        old="            if self._recovery is None:\n                raise\n",
        new="            raise\n",
        breaks="a process that was told once that another listens never asks again",
    ),
    Mutant(
        name="trouble ends the campaign",
        file=CAMPAIGN,
        old='"cause": text_of(error)},\n            )\n            return None\n',
        new='"cause": str(error)},\n            )\n            raise LockClosed(str(error)) from error\n',
        breaks="a candidate that met a failing storage is dead",
    ),
    Mutant(
        name="a payload is dropped",
        file=LISTENER,
        old='        return "skip" if ticks else "raise"\n',
        new='        return "skip"\n',
        breaks="a message is dropped if another process listens",
    ),
    Mutant(
        name="a batch is no payload",
        file=LISTENER,
        old="not call.arguments or has_tick(call.arguments)\n",
        new='not call.arguments or has_tick(call.arguments) or isinstance(call.arguments.get("given"), list)\n',
        breaks="a batch that reaches a process which does not listen ends as a success, and is lost",
        by=("tests/unit/functions/test_lost_deliveries.py",),
        why="worlds deliver no batches",
    ),
    Mutant(
        name="a listener asks under the lock period",
        file=LISTENER,
        old="address_maker(self.options.replace(lock_period=self.period), ",
        new="address_maker(self.options, ",
        breaks="a listener's lease is as long as an invocation's",
    ),
    Mutant(
        name="a policy function is asked after the time-out",
        file=GUARD,
        old="        if callable(self.on_contention):\n            return 0\n        return self.waits",
        new="        if callable(self.on_contention):\n            return self.timeout or 0\n        return self.waits",
        breaks="a policy function is asked only after the whole time-out",
    ),
    Mutant(
        name="a policy's wait has no end",
        file=GUARD,
        old="        return self.options.lock_acquisition_timeout if self.timeout is None else self.timeout\n",
        new="        return self.options.lock_acquisition_timeout\n",
        breaks="an invocation waits for longer than its time-out",
        among="listener",
    ),
    Mutant(
        name="the refusal of the second wait is skipped",
        file=GUARD,
        old='            if policy != "skip":\n                raise contended\n',
        new='            if policy == "raise" or waited == 0:\n                raise contended\n',
        breaks="an invocation that did not get the lock ends as a success without its body",
    ),
    Mutant(
        name="finished after the lock",
        file=GUARD,
        old="            result = await body() if is_async else body()\n",
        new=(
            "            result = await body() if is_async else body()\n            if not is_async:\n"
            "                return result\n"
        ),
        breaks="what a sync body gives item by item is made without the lock",
    ),
    Mutant(
        name="a policy is told of no message",
        file=CONTENTION,
        old="message = next(filter(is_message, values), None)",
        new="message = next((value for value in values if isinstance(value, bytes)), None)",
        breaks="a policy function that counts deliveries waits for ever",
    ),
    Mutant(
        name="a wait as long as the functionTimeout",
        file=WAITING,
        old="        return whole - min(max(_SPARED * whole, _SPARED_AT_LEAST), _SPARED_AT_MOST * whole)\n",
        new="        return whole\n",
        breaks="the host starts its worker anew before an invocation has been answered",
    ),
    Mutant(
        name="each wait counts from its own beginning",
        file=WAITING,
        old="            if invocation.since is None:\n                invocation.since = began\n",
        new="            invocation.since = began\n",
        breaks="two waits of an invocation last beyond its functionTimeout",
        among="nested",
    ),
    Mutant(
        name="a later wait has the whole time",
        file=WAITING,
        old="left = round(self.seconds - (began - invocation.since), 1)",
        new="left = round(self.seconds, 1)",
        breaks="two waits of an invocation last beyond its functionTimeout",
        among="nested",
    ),
    Mutant(
        name="one attempt too few",
        file=ATTEMPTS,
        old="        left -= 1\n",
        new="        left -= 2\n",
        breaks="an invocation gives up before it has tried as often as the settings say",
    ),
    Mutant(
        name="a stray cancellation reaches the worker",
        file="singleton/base/tasks.py",
        old="return not (awaited and (isinstance(error, GeneratorExit) or from_outside(error)))",
        new="return not isinstance(error, asyncio.CancelledError)",
        breaks="an invocation whose body raises CancelledError is never answered",
    ),
    Mutant(
        name="an exit reaches the worker",
        file="singleton/base/tasks.py",
        old="return not (awaited and (isinstance(error, GeneratorExit) or from_outside(error)))",
        new="return not (isinstance(error, SystemExit) or (awaited and from_outside(error)))",
        breaks="a body that calls exit() ends the worker",
    ),
    Mutant(
        name="a panic reaches the worker",
        file="singleton/base/tasks.py",
        old="return not (awaited and (isinstance(error, GeneratorExit) or from_outside(error)))",
        new="return isinstance(error, SystemExit | asyncio.CancelledError) and not from_outside(error)",
        breaks="an invocation whose body calls a Rust library that panics is never answered",
    ),
    Mutant(
        name="items are made after the lock",
        file=LATE,
        old="        result = [*result]\n",
        new="        return result\n",
        breaks="what a body gives item by item is made without the lock",
    ),
    Mutant(
        name="a cancellation is taken for a loss",
        file=CANCELLING,
        old="        if self._watch.end(error):\n",
        new="        ours = self._watch.end(error)\n"
        "        if not ours and isinstance(error, asyncio.CancelledError):\n"
        "            self._task.uncancel()\n            raise RuntimeError from error\n        if ours:\n",
        breaks="somebody cancels an invocation, and is told that it failed",
    ),
    Mutant(
        name="asked twice under a user's credential",
        file=OPENING,
        old="credential=own or account.credential, **options)\n    elif",
        new="credential=own or account.credential, **transport)\n    elif",
        breaks="behind two answers of 503 an acquire is ten seconds late: the SDK asks again by itself",
        by=("tests/unit/runtime/test_accounts.py",),
        why="worlds open their stores by a connection string",
    ),
    Mutant(
        name="a guard is kept over a fork",
        file=CURRENT,
        old="    _guard = threading.Lock()\n    if _current",
        new="    if _current",
        breaks="a child whose parent forked as it started its lock thread hangs at its first lock",
        by=("tests/unit/runtime/test_fork.py",),
        why="worlds do not fork",
    ),
)
