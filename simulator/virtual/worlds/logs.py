"""What watches the locks of a world, while it blocks whoever logs, or raises: log handlers, listeners, callbacks.

logged on the lock thread  a handler of the app ran on the lock thread, where one that blocks would stop all locks
lock thread ended          what a watcher of the app raised has ended the lock thread

Lines of the lock thread are handed on by the shipped ``LogThread``; in place of its thread stands the machine's part
that logs. At other times nothing is logged: it would take half of a world's time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, ClassVar, Final

from simulator.virtual.time.machine import HOST, PART
from singleton.base.events import subscribe
from singleton.base.hold import current_hold
from singleton.base.invocation import catch_by, say_by
from singleton.runtime.log_thread import LogThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.oracle.evidence import Evidence
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine, Part
    from singleton.base.events import LockEvent

_LOGGER: Final = logging.getLogger("singleton")
_SILENT: Final = logging.NullHandler()
RAISED: Final = "simulated: a watcher fails"
_ERRORS: Final = (RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)
"""What watchers raise in turn on the threads of the locks; elsewhere the first."""


_OF_LOCKS: Final = ("locks", "log")


def _part() -> Part:
    """Return the part of the machine that runs now; the context of a line is the context of the lock thread."""
    return "log" if VirtualLogThread.says else PART.get()


class VirtualLogThread(LogThread):
    """The thread that logs for a machine's locks: as shipped, but a part of the machine replaces the thread."""

    says: ClassVar[bool] = False
    """Whether a line is being logged on such a thread."""

    def __init__(self, loop: VirtualLoop, machine: Machine) -> None:
        super().__init__()
        self._loop = loop
        self._machine = machine

    def take(self, say: Callable[[], None]) -> None:
        """Take a line of the lock thread."""
        self._put(say)

    def _begun(self) -> bool:
        self._machine.context("log").run(self._loop.call_soon, self._say_next)
        return True

    def _say_next(self) -> None:
        if self._lines.qsize() and (say := self._lines.get()) is not None:
            VirtualLogThread.says = True
            try:
                self._say(say)
            finally:
                VirtualLogThread.says = False


class Logs(logging.Handler):
    """The log handler of every machine's app."""

    def __init__(self, loop: VirtualLoop, evidence: Evidence) -> None:
        super().__init__()
        self._loop = loop
        self._evidence = evidence
        self._threads: dict[Machine, VirtualLogThread] = {}
        self._blocks_until: dict[Machine, float] = {}
        self._raises_until: dict[Machine, float] = {}
        self._before: tuple[int, bool] | None = None
        self._errors = itertools.cycle(_ERRORS)
        self._unsubscribe: Callable[[], None] = lambda: None

    def spoil(self, machine: Machine, seconds: float, *, raises: bool) -> None:
        """Let the handler block, or all watchers raise, for so long on a machine; lines are logged from now on."""
        until = self._raises_until if raises else self._blocks_until
        until[machine] = max(self._loop.now + seconds, until.get(machine, 0.0))
        if self._before is None:
            self._before = _LOGGER.level, _LOGGER.propagate
            _LOGGER.setLevel(logging.DEBUG)
            logging.raiseExceptions = False  # what handlers raise is not printed
            _LOGGER.propagate = False
            _LOGGER.addHandler(self)
            logging.getLogger().addHandler(_SILENT)  # of others, too, nothing is printed
            say_by(self._route)
            catch_by(lambda: BaseException if _part() in _OF_LOCKS else Exception)
            self._unsubscribe = subscribe(self._hear)
        logging.disable(logging.NOTSET)
        self._loop.later(seconds, self._rest)

    def calm(self) -> None:
        """Raise nothing any more: the world is cleared up."""
        self._raises_until.clear()

    def close(self) -> None:
        """Leave logging as it was."""
        if self._before is not None:
            logging.getLogger().removeHandler(_SILENT)
            _LOGGER.removeHandler(self)
            level, _LOGGER.propagate = self._before
            _LOGGER.setLevel(level)
            self._before = None
            logging.raiseExceptions = True
            say_by(lambda say: say())
            catch_by(lambda: Exception)
            self._unsubscribe()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Block the part that logs, or raise."""
        machine, part = HOST.get(), _part()
        if machine is None:
            return
        self._evidence.reached["lines logged"] += 1
        if part == "locks":
            self._evidence.blame("logged on the lock thread", f"{machine.name} logs {record.getMessage()!r} there")
        if (seconds := self._blocks_until.get(machine, 0.0) - self._loop.now) > 0:
            machine.block(part, seconds)
        if part == "log":
            self._raise()

    def _hear(self, event: LockEvent) -> None:
        """Raise, as a listener of events; watch the hold of a body that begins with a callback that raises."""
        if event.kind == "body_started" and self._raises():
            current_hold().lost.add_callback(self._raise)
        self._raise()

    def _raises(self) -> bool:
        machine = HOST.get()
        return machine is not None and self._raises_until.get(machine, 0.0) > self._loop.now

    def _raise(self, _: object = None) -> None:
        if self._raises():
            self._evidence.reached["watchers that raised"] += 1
            error = next(self._errors) if _part() in _OF_LOCKS else RuntimeError
            raise error(RAISED)

    def _route(self, say: Callable[[], None]) -> None:
        """Log a line as its part of the machine does: the lock thread hands it on."""
        machine = HOST.get()
        if machine is None or PART.get() != "locks":
            say()
            return
        if machine not in self._threads:
            self._threads[machine] = VirtualLogThread(self._loop, machine)
        self._threads[machine].take(say)

    def _rest(self) -> None:
        if all(until <= self._loop.now for until in (*self._blocks_until.values(), *self._raises_until.values())):
            logging.disable(logging.CRITICAL)
