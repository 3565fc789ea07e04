"""The host's own witness: when the user's innermost function begins and ends, for which invocation, and what stays.

The witness asks the lock nothing. Every body is seen: also a body that runs after its lock was released, that runs
twice, or that runs for nobody. Tasks, threads, calls in thread pools and processes that a body starts belong to
that invocation. A cancellation of a body's task is seen, and whether the loop of the body could cancel at all.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from simulator.history.journal import CANCELLED, PANIC, UNSEEN
from simulator.history.value_digest import digest
from simulator.witness.code_watch import watch
from simulator.witness.guards import GuardWatcher
from simulator.witness.standstills import tell_standstills
from simulator.witness.value_form import kept_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from simulator.history.journal import Write
    from simulator.witness.guards import GuardedFunction

    OnAsked = Callable[[str, str], None]
    """Is told which invocation is asked to end, and by which module."""


invoked: ContextVar[str] = ContextVar("simulated_invocation", default="")
"""The id of the invocation for which the worker calls a function."""


class AskedTask(asyncio.Task[Any]):
    """A task that reports when it is asked to end, and for which invocation it runs."""

    def __init__(self, coro: Any, *, asked: OnAsked, context: Context | None = None, **more: Any) -> None:
        self._asked = asked
        self.asker = ""  # the module that asked last
        self._where = copy_context() if context is None else context
        super().__init__(coro, context=self._where, **more)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, and report it."""
        if not self.done():
            self.asker = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - only the frame tells
            self._asked(self._where.get(invoked, ""), self.asker)
        return super().cancel(msg)


def can_be_asked() -> bool:
    """Tell whether the current code runs in a task that reports when it is asked to end."""
    try:
        return isinstance(asyncio.current_task(), AskedTask)
    except RuntimeError:  # a thread
        return False


inside: ContextVar[str] = ContextVar("simulated_body", default="")
"""The id of the invocation in whose body this code runs; the empty text outside all bodies."""

_STARTERS: Final = ("singleton.runtime.", "asyncio.", "concurrent.futures.thread.")
"""Modules whose threads are no work of the body that first needs the threads.

The lock's library keeps its threads. A pool's calls, and the processes that asyncio waits for, are followed themselves.
The starting module counts: a thread that a body starts may run a function of any module.
"""


class Leftovers:
    """Follows what bodies start: tasks, threads, processes. ``asked`` is told of a cancelled task of no body.

    ``launched`` is called when the app starts a process.
    """

    def __init__(self, asked: OnAsked, launched: Callable[[], None]) -> None:
        self._asked = asked
        self._launched = launched
        self._started: dict[str, dict[object, str]] = defaultdict(dict)
        self._turn = threading.Lock()

    def of(self, invocation: str) -> list[str]:
        """Return in words what this invocation's body started and what still runs."""
        with self._turn:
            started = self._started.get(invocation, {})
            for process in [each for each in started if isinstance(each, subprocess.Popen) and not _runs(each)]:
                del started[process]
            return [*started.values()]

    def remain(self) -> bool:
        """Tell whether anything still runs that a body started."""
        return bool(self._started)

    def task_factory(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        """Make a task, as ``loop.set_task_factory`` wants it."""
        invocation = inside.get()
        if not invocation:
            return AskedTask(coro, asked=self._asked, loop=loop, **more)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **more)
        if _is_asyncios_own(coro):
            return task
        self._begin(invocation, task, f"task {_function_name(coro)}")
        task.add_done_callback(lambda ended: self._end(invocation, ended))
        return task

    @contextmanager
    def threads_followed(self) -> Iterator[None]:
        """Follow the threads, the calls in thread pools, and the processes that this process starts meanwhile."""
        start, submit, launch = threading.Thread.start, ThreadPoolExecutor.submit, subprocess.Popen.__init__

        def followed_start(started: threading.Thread) -> None:
            starter = f"{sys._getframe(1).f_globals.get('__name__')}."  # noqa: SLF001 - only the caller's frame tells
            if (invocation := inside.get()) and not starter.startswith(_STARTERS):
                started.run = self._followed(invocation, started, started.run)  # type: ignore[method-assign]
                self._begin(invocation, started, f"thread {started.name}")
            start(started)

        def followed_submit(pool: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            if invocation := inside.get():
                key = object()
                self._begin(invocation, key, f"a pool's thread, in {_function_name(work)}")
                future = submit(pool, self._followed(invocation, key, work), *args, **kwargs)
                future.add_done_callback(lambda _: self._end(invocation, key))  # if it was cancelled before it ran
                return future
            return submit(pool, work, *args, **kwargs)

        def followed_launch(process: subprocess.Popen[Any], args: Any, *more: Any, **options: Any) -> None:
            given = args if isinstance(args, str | bytes | os.PathLike) else next(iter(args), "")
            name = Path(os.fsdecode(given)).name
            if name != "uname":  # of Python's own platform module
                self._launched()
            launch(process, args, *more, **options)
            if invocation := inside.get():
                self._begin(invocation, process, f"process {name}")

        threading.Thread.start = followed_start  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = followed_submit  # type: ignore[assignment]
        subprocess.Popen.__init__ = followed_launch  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]
            subprocess.Popen.__init__ = launch  # type: ignore[method-assign]

    def _followed(self, invocation: str, thing: object, work: Callable[..., Any]) -> Callable[..., Any]:
        def followed(*args: Any, **kwargs: Any) -> Any:
            before = inside.set(invocation)
            try:
                return work(*args, **kwargs)
            finally:
                inside.reset(before)
                self._end(invocation, thing)

        return followed

    def _begin(self, invocation: str, thing: object, words: str) -> None:
        with self._turn:
            self._started[invocation][thing] = words

    def _end(self, invocation: str, thing: object) -> None:
        with self._turn:
            things = self._started.get(invocation, {})
            things.pop(thing, None)
            if not things:
                self._started.pop(invocation, None)


def _function_name(work: Any) -> str:
    """Return the name of the function that runs, without arguments: arguments hold data of messages."""
    while isinstance(work, partial):
        runs_another = isinstance(getattr(work.func, "__self__", None), Context) and work.args
        work = work.args[0] if runs_another else work.func
    return str(getattr(work, "__qualname__", type(work).__qualname__))


def _is_asyncios_own(coro: Any) -> bool:
    """Tell whether a coroutine is a private step of asyncio, such as the one that connects the pipes of a process."""
    code = getattr(coro, "cr_code", None)
    frame = getattr(coro, "cr_frame", None)
    module = "" if frame is None else str(frame.f_globals.get("__name__"))
    return code is not None and code.co_name.startswith("_") and module.startswith("asyncio.")


def _runs(process: subprocess.Popen[Any]) -> bool:
    """Tell whether a process runs, and take nothing away from its waiter."""
    if process.returncode is not None or sys.platform == "win32" or sys.platform == "darwin":
        return process.returncode is None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


_SAME: Final = 1.0
"""Seconds within which a second request to end is not reported."""


@dataclass(slots=True)
class _Called:
    """An invocation that runs: its function, the value of its trigger, and the fields of its body's records."""

    function: str
    value: object
    told: Mapping[str, object]
    asked: float = -math.inf  # when a request to end was last reported
    runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))


_ONCE: Final = "__once__"
_ORDERED: Final = "__ordered__"
"""The marks of a function with `@once` or `@ordered`."""
RULES: Final = "__rules__"
"""The mark of a function with `@ordered`: how messages are tried, as the app wrote it."""
MOST_ATTEMPTS: Final = 5
"""How often an inbox tries a message, unless the app says more (docs/how-to/in-order.md)."""
_DEFAULT: Final = "AzureWebJobsStorage"


def inbox_rules(attempts: int = MOST_ATTEMPTS, on_poison: str = "skip", **_: Any) -> dict[str, object]:
    """Return what an app's arguments for the handler of an inbox say of failed messages."""
    return {"attempts": attempts, "stops": on_poison == "stop"}


def inbox_name(inbox: Any) -> str:
    """Return the name of an inbox, with its connection if that is not the default: it may be in another account."""
    connection = getattr(getattr(inbox, "service", None), "_connection", _DEFAULT)
    return inbox.name if connection == _DEFAULT else f"{inbox.name} {digest(connection)[:6]}"


class Witness:
    """Writes ``body_entered`` and ``body_left`` for each run of a user's function.

    ``hold`` returns the hold that a body can see, or raises RuntimeError.
    """

    def __init__(
        self, write: Write, hold: Callable[[], Any] | None = None, listed: Callable[[Any], bool] | None = None
    ) -> None:
        self.leftovers = Leftovers(self._asked, lambda: write("note", message=UNSEEN))
        self.guards = GuardWatcher(write, invoked.get, self._trigger, self.leftovers.remain, hold)
        self._write = write
        self._hold = hold
        self._listed = listed
        self._watched: dict[FunctionType, CodeType] = {}
        self._names: dict[int, list[str]] = {}  # by the id of the code: code of another function may be equal
        self._called: dict[str, _Called] = {}
        self._runs: dict[object, tuple[str, str, str, str]] = {}
        self._strays = itertools.count(1)
        self._turn = threading.Lock()
        self._once: set[tuple[int, str]] = set()  # with the id of the code: worlds of one process share names
        self._inboxes: dict[int, dict[str, object]] = {}  # by the id of the code, what is told of its inbox

    def watch(self, functions: Iterable[tuple[str, Callable[..., Any]]]) -> None:
        """Watch the innermost function of each from now on, under its name in the host; several may have one name."""
        for name, function in functions:
            innermost, code = inspect.unwrap(function), 0
            if isinstance(innermost, FunctionType):
                if innermost not in self._watched:
                    self._watched[innermost] = watch(innermost, self)
                code = id(self._watched[innermost])
                self._names.setdefault(code, []).append(name)
                if (inbox := getattr(function, _ORDERED, None)) is not None:
                    self._inboxes[code] = {"inbox": inbox_name(inbox), **getattr(function, RULES, {})}
            if hasattr(function, _ONCE):
                self._once.add((code, name))

    def watch_handler(self, handler: Callable[..., Any], inbox: str, rules: Mapping[str, object]) -> None:
        """Watch a function that handles messages of an inbox outside of the functions of the host."""
        given = getattr(handler, "__func__", handler)
        function = inspect.unwrap(given)
        if isinstance(function, FunctionType) and function not in self._watched:
            self.watch([(function.__name__, function)])
            known = rules if function is given else {}  # a decorator may try again by itself
            self._inboxes[id(self._watched[function])] = {"inbox": inbox, **known}

    def watch_guards(self, guards: Iterable[GuardedFunction]) -> None:
        """Compare each guard with the function below from now on. Call after `watch`."""
        guards = [*guards]
        for function in (function for each in guards for function in (each.guard, each.below)):
            if function not in self._watched:
                self._watched[function] = watch(function, self.guards)
        self.guards.add(guards, self._watched)

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Follow what runs on a loop: the tasks that bodies start, requests to end, and times when none is possible."""
        loop.set_task_factory(self.leftovers.task_factory)
        tell_standstills(loop, self._write)

    @contextmanager
    def invocation(self, name: str, function: str, value: object, told: Mapping[str, object]) -> Iterator[None]:
        """Know an invocation and the value of its trigger until it is answered; report what it raises."""
        with self._turn:
            self._called[name] = _Called(function, value, told)
        before = invoked.set(name)
        try:
            yield
        except BaseException as error:
            self._write("call_raised", invocation=name, error=type(error).__name__)
            raise
        finally:
            invoked.reset(before)
            with self._turn:
                self._called.pop(name, None)

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        """A body begins."""
        invocation = self._whose(arguments)
        names = self._names.get(id(code), [code.co_name])
        called = self._called.get(invocation)
        function = called.function if called and called.function in names else names[0]
        with self._turn:
            label = f"{invocation}#{next(called.runs if called else self._strays)}"
            self._runs[run] = (label, function, invocation, inside.get())
        inside.set(invocation)
        told = {**called.told} if called else {}
        if code.co_flags & inspect.CO_COROUTINE and can_be_asked():
            told["can_be_asked"] = True
        for message in arguments.values():
            if type(message).__name__ == "InboxMessage":
                item = {name: getattr(message, name) for name in ("key", "id", "attempt", "token")}
                item["digest"] = digest(message.body)
                told["item"] = {**self._inboxes.get(id(code), {"inbox": ""}), **item}
        self._write("body_entered", run=label, function=function, invocation=invocation, **told, **self._seen())
        self.guards.entered(code, run, arguments)

    def left(self, code: CodeType, run: object, value: object, error: BaseException | None) -> None:
        """A body has ended."""
        self.guards.left(code, run, value, error)
        with self._turn:
            label, function, invocation, around = self._runs.pop(run, ("", code.co_name, "", ""))
        inside.set(around)
        told: dict[str, object] = {"function": function, "invocation": invocation, **self._seen()}
        if error is not None:
            told["error"] = _name_of(error)
        elif (id(code), function) in self._once:
            told["digest"] = kept_digest(value)
        # What a body inside another one leaves running may be its own task or thread: the outer body tells of the rest.
        if not around and (still := self.leftovers.of(invocation)):
            told["left_running"] = still
        self._write("body_left", run=label, **told)

    def _seen(self) -> dict[str, object]:
        """Return how a body sees its hold here, and whether the lock is lost: each way must tell so of a loss."""
        if self._hold is None:
            return {}
        try:
            hold = self._hold()
        except RuntimeError:
            return {"blind": True}
        ways = told_lost(hold)
        shown = {"owner": hold.owner, "lease": f"{crc32((hold.lease_id or '').encode()):08x}", "waited": hold.waited}
        shown |= {"lost": any(ways), "reason": hold.lost.reason}
        shown |= {} if self._listed is None else {"listed": self._listed(hold)}
        return {"token": hold.token, "hold": hold.lock, "lost": all(ways), "shown": shown}

    def _asked(self, invocation: str, asker: str) -> None:
        called, now = self._called.get(invocation), time.monotonic()
        if called and now - called.asked > _SAME:
            called.asked = now
            by = {"by": "lock"} if asker.startswith("singleton.") else {}
            self._write("asked_to_end", invocation=invocation, **by)

    def _trigger(self, invocation: str) -> object:
        """Return an invocation's value until a body has it, which may change the value."""
        called = self._called.get(invocation)
        return None if called is None or inside.get() else called.value

    def _whose(self, arguments: Mapping[str, Any]) -> str:
        """Return the invocation for which a body runs: by the trigger's value, otherwise by the context."""
        with self._turn:
            theirs = [
                name
                for name, called in self._called.items()
                if any(value is called.value for value in arguments.values())
            ]
        return theirs[0] if len(theirs) == 1 else invoked.get()


def told_lost(hold: Any) -> list[bool]:
    """Return for each way in which a hold tells of a loss whether the hold tells so now."""
    ways = [hold.lost.is_set(), hold.lost.reason is not None, not hold.owned]
    try:
        hold.raise_if_lost()
    except Exception:  # noqa: BLE001 - whatever it is, it is how a body hears of a loss
        return [*ways, True]
    return [*ways, False]


def _name_of(error: BaseException) -> str:
    """Return the name of a body's error in the journal. One name stands for all panics of libraries."""
    if isinstance(error, asyncio.CancelledError):
        return CANCELLED
    is_panic = not isinstance(error, Exception | SystemExit | GeneratorExit | KeyboardInterrupt)
    return PANIC if is_panic else type(error).__name__
