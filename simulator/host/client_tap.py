"""See when user code asks for a lock of a lock client, is inside of the lock, and gives it up.

A ``client_lock`` record tells ``asked``, before the product is called; ``entered``, with what user code got, or
``refused``, or ``failed`` by an error; ``leaving``, before the product gives the lock back, and ``left`` afterwards;
``lost``, as ``hold.lost`` tells user code. A dropped hold has ended, too. ``begun`` and ``over`` tell from when to when
a periodic worker or a candidate asks again and again. A name that is made of a text is told as ``named``. A break by
user code is told as an operator's deed. `tap_clients` must run before the app is imported.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import time
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from simulator.expected.blob import expected_blob
from simulator.expected.declaration import in_seconds
from simulator.history.journal import clock
from simulator.history.value_digest import digest
from simulator.host.block_losses import BlockLosses, call_at_loss
from simulator.witness.witness import invoked, told_lost
from singleton.base.errors import LockNotAcquired
from singleton.base.hold import holds_in
from singleton.baseclient import BaseClient
from singleton.client import AsyncLockClient, LockClient
from singleton.clients.blocks import AsyncBlock, Block, _BaseBlock
from singleton.clients.leadership import Leadership
from singleton.clients.periodic_worker import PeriodicWorker
from singleton.locking.line import ENDLESS
from singleton.runtime.reentry import REENTRY, BodyContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.history.journal import Write
    from singleton.base.hold import Hold, LossSignal

blocks_around: Final[ContextVar[tuple[str, ...]]] = ContextVar("simulated_blocks", default=())
"""The numbers of the blocks of lock clients around the caller, the outermost first."""
_SPANS: Final = ("timeout", "at_least", "max_hold", "every")


def tap_clients(write: Write, host_id: str = "") -> None:
    """Write a record of each request, entry, exit and loss from now on. ``host_id``: of the locks of guards."""
    tap, leads = _ClientTap(write, BlockLosses(write)), cast("Any", Leadership)
    for client in (LockClient, AsyncLockClient):
        for how in ("lock", "semaphore", "try_lock", "lock_all", "leadership", "periodic"):
            setattr(client, how, tap.making(getattr(client, how), how))
        watch(client, tap.acquiring, "acquire")
        watch(client, tap.releasing, "release")
        watch(client, tap.breaking, "break_")
        for how in ("holder", "locked"):
            watch(client, partial(tap.looking, how), how)
    cast("Any", BaseClient).safe_name = staticmethod(tap.naming(BaseClient.safe_name))
    cast("Any", BaseClient).lock_name = tap.naming_guards(BaseClient.lock_name, host_id)
    watch(_BaseBlock, tap.copying, "another")
    watch(Block, tap.entering, "__enter__")
    watch(AsyncBlock, tap.entering, "__aenter__")
    watch(_BaseBlock, tap.leaving, "_left")
    watch(BodyContext, tap.looking_back, "__exit__")
    watch(leads, tap.beginning, "start", "__enter__", "__aenter__")
    watch(leads, tap.awaiting, "wait", "_wait_async")
    leads.hold = property(around(leads.hold.fget, tap.seeing))
    watch(leads, tap.resigning, "stop", "__aexit__")
    watch(PeriodicWorker, tap.beginning, "start", "__aenter__")
    watch(PeriodicWorker, tap.running, "run")
    watch(PeriodicWorker, tap.stopping, "stop")
    watch(PeriodicWorker, tap.working, "_do")
    cast("Any", PeriodicWorker).__init__ = tap.made_with_work(PeriodicWorker.__init__)
    watch(BaseClient, tap.closing, "close")


def around(real: Callable[..., Any], watching: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another within a context, and puts the answer into the list of the context."""
    if inspect.iscoroutinefunction(inspect.unwrap(real)):

        @functools.wraps(real)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with watching(*args, **kwargs) as answer:
                answer.append(await real(*args, **kwargs))
            return answer.pop()

        return awaited

    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        with watching(*args, **kwargs) as answer:
            answer.append(real(*args, **kwargs))
        return answer.pop()

    return called


def watch(owner: type, watching: Callable[..., Any], *names: str) -> None:
    """Put what calls them within a context in the place of methods."""
    for name in names:
        setattr(owner, name, around(getattr(owner, name), watching))


class _Request(NamedTuple):
    """Which client was asked, by which method, and for what."""

    client: Any = None
    how: str = ""
    given: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    called: bool = False  # for one call of a decorated function

    @property
    def recurs(self) -> bool:
        """Whether it is asked again and again, until somebody ends that."""
        return self.how == "periodic" or (self.how == "leadership" and self.client._options.recovery is not None)  # noqa: SLF001

    @property
    def raises(self) -> bool:
        """Whether a block fails at its end if its hold was lost."""
        return bool((self.given.get("on_loss") or self.client._on_loss) == "raise")  # noqa: SLF001

    def facts(self, name: str) -> dict[str, Any]:
        """Return what a record tells of a request for one lock."""
        options, leads = self.client._options, self.how == "leadership"  # noqa: SLF001 - which no user asks for
        given = {"timeout": 0.0, **self.given} if self.how == "try_lock" else self.given
        told: dict[str, Any] = {span: in_seconds(given[span]) for span in _SPANS if given.get(span) is not None}
        told |= {"name": name, "how": self.how, "where": _container(self.client), "limit": given.get("limit")}
        told |= {"lease": options.listener_lock_period if leads else options.lock_period}
        told |= {"poll": options.recovery if leads else options.lock_acquisition_polling_interval}
        told |= {"every": options.recovery} if leads else {}
        told |= {"failover": options.failover, "renewal": options.renewal_interval, "window": options.handoff_window}
        return {**told, "tokens": options.fencing_tokens, "called": self.called, **called_in()}


class _ClientTap:
    def __init__(self, write: Write, losses: BlockLosses) -> None:
        self._write = write
        self._losses = losses
        self._numbers = itertools.count(1)
        self._open: dict[tuple[int, str], str] = {}  # by the id of a hold, and the invocation that uses the hold
        self._lost: set[str] = set()
        self._saw: dict[str, bool] = {}  # whether the body of a decorated function could see a loss as it ended
        self._signals: dict[str, LossSignal] = {}
        self._made: weakref.WeakKeyDictionary[Any, _Request] = weakref.WeakKeyDictionary()
        self._inside: weakref.WeakKeyDictionary[Any, list[tuple[int, str]]] = weakref.WeakKeyDictionary()
        self._begun: dict[int, tuple[Any, str]] = {}  # by the ids of workers and candidates: client, and number

    def making(self, real: Callable[..., Any], how: str) -> Callable[..., Any]:
        """Return a method that notes of what it makes which client was asked, and for what."""
        arguments = inspect.signature(real)

        @functools.wraps(real)
        def made(client: Any, *args: Any, **kwargs: Any) -> Any:
            thing = real(client, *args, **kwargs)
            self._made[thing] = _Request(client, how, arguments.bind(client, *args, **kwargs).arguments)
            return thing

        return made

    def naming(self, real: Callable[[str], str]) -> Callable[[str], str]:
        """Return a function that tells which text got which name."""

        @functools.cache
        def told(text: str, name: str) -> None:
            self._write("named", name=name, text=digest(text))

        @functools.wraps(real)
        def named(text: str) -> str:
            name = real(text)
            told(text, name)
            return name

        return named

    def naming_guards(self, real: Callable[..., str], host_id: str) -> Callable[..., str]:
        """Return a method that tells which name the lock of a guard got, and which it has by docs/layouts.md."""
        arguments = inspect.signature(real)

        @functools.cache
        def told(name: str, function: str, key: str, *, hashed: bool) -> None:
            self._write("lock_named", name=name, function=function, expected=expected_blob(key, hashed=hashed))

        @functools.wraps(real)
        def named(client: Any, *args: Any, **kwargs: Any) -> str:
            asked = arguments.bind(client, *args, **kwargs)
            asked.apply_defaults()
            given = asked.arguments
            scopes = given["scope"] = [given["scope"]] if isinstance(given["scope"], str) else [*given["scope"]]
            name = real(*asked.args, **asked.kwargs)
            host = client._options.host_id or host_id  # noqa: SLF001 - which no user asks for
            shared = given["level"] == "host"  # by functions of any name
            whose = [given["level"]] if shared else ["listener" if given["listener"] else "function", given["function"]]
            key = ["default", host, *(["semaphore"] if given["limit"] else []), *whose, *scopes]
            if client._options.container != "azure-webjobs-hosts":  # noqa: SLF001
                about = "" if shared else given["function"]
                told(name, about, json.dumps(key), hashed=given["scope_hash"])
            return name

        return named

    @contextmanager
    def copying(self, block: Any) -> Iterator[list[Any]]:
        """Note of a decorator's block for one call what is noted of the decorator."""
        answer: list[Any] = []
        yield answer
        if block in self._made:
            self._made[answer[0]] = self._made[block]._replace(called=True)

    @contextmanager
    def entering(self, block: Any, *_: Any, **__: Any) -> Iterator[list[Any]]:
        """Tell that a block asks, and what it gets, unless it has ended."""
        with self._getting(block, asks=True) as answer:
            yield answer
        if block in self._made:
            self._losses.entered(block, holds_in(answer[0]), raises=self._made[block].raises)
        blocks_around.set((*blocks_around.get(), *self._numbers_of(block)))

    @contextmanager
    def leaving(self, block: Any, error: Any = None, *_: Any) -> Iterator[list[Any]]:
        """Tell that a block ends."""
        request, numbers = self._made.get(block), self._numbers_of(block)
        blocks_around.set(tuple(each for each in blocks_around.get() if each not in numbers))
        with self._ending(block):
            lost = request is not None and not self._lost.isdisjoint(numbers)
            with self._losses.leaving(block, error, lost=lost, raises=request is not None and request.raises):
                yield []

    @contextmanager
    def looking_back(self, context: Any, *_: Any) -> Iterator[list[Any]]:
        """Note whether the body of a decorated function sees the loss of its lock, or of one around it, as it ends."""
        for hold in context._holds:  # noqa: SLF001 - which no user asks for
            if number := self._open.get((id(hold), invoked.get())):
                self._saw[number] = all(told_lost(hold))
        yield []

    @contextmanager
    def awaiting(self, candidate: Any, *_: Any, **__: Any) -> Iterator[list[Any]]:
        """Tell that user code waits to lead, and what it gets."""
        with self.seeing(candidate, asks=True) as answer:
            yield answer

    @contextmanager
    def seeing(self, candidate: Any, *, asks: bool = False) -> Iterator[list[Any]]:
        """Tell of the hold that user code is shown."""
        lost = {whose for whose in self._inside.get(candidate, []) if self._open.get(whose, "") in self._lost}
        with self._getting(candidate, asks=asks) as answer:
            yield answer
        if not lost.isdisjoint((id(hold), "") for hold in holds_in(answer[0])):
            self._write("altered", kind="led", function=candidate.name, invocation=invoked.get())

    @contextmanager
    def resigning(self, candidate: Any, *_: Any) -> Iterator[list[Any]]:
        """Tell that a candidacy ends; it may still show its hold, which is on its way back."""
        self._over(id(candidate))
        with self._ending(candidate):
            yield []

    @contextmanager
    def beginning(self, asker: Any) -> Iterator[list[Any]]:
        """Tell that a worker or a candidate has begun to ask."""
        answer: list[Any] = []
        yield answer
        self._begin(asker)

    @contextmanager
    def running(self, worker: Any) -> Iterator[list[Any]]:
        """Tell from when to when a worker runs on the event loop of its caller."""
        self._begin(worker)
        try:
            yield []
        finally:
            self._over(id(worker))

    @contextmanager
    def stopping(self, worker: Any, *_: Any, **__: Any) -> Iterator[list[Any]]:
        """Tell that somebody ends a worker."""
        self._over(id(worker))
        yield []

    @contextmanager
    def closing(self, client: Any) -> Iterator[list[Any]]:
        """Tell that the end of a client ends its workers and candidates."""
        for asker, (whose, _) in [*self._begun.items()]:
            if whose is client:
                self._over(asker)
        yield []

    @contextmanager
    def working(self, worker: Any, hold: Hold) -> Iterator[list[Any]]:
        """Tell of the work of a periodic worker."""
        entered = self._enter(hold, self._made[worker], worker.name)
        try:
            yield []
        finally:
            for whose in entered:
                self._is_lost(self._open.get(whose, ""))
                self._leave(whose)

    def made_with_work(self, real: Callable[..., None]) -> Callable[..., None]:
        """Return a constructor of periodic workers whose async work is seen after the loss of its hold."""

        @functools.wraps(real)
        def made(worker: Any, name: str, work: Any, **more: Any) -> None:
            is_async = inspect.iscoroutinefunction(inspect.unwrap(work))
            real(worker, name, around(work, self._losses.working) if is_async else work, **more)

        return made

    @contextmanager
    def acquiring(self, client: Any, name: str, **given: Any) -> Iterator[list[Any]]:
        """Tell of a hold outside of blocks."""
        request = _Request(client, "acquire", given)
        with self._asking(request, name, asks=True) as (answer, number):
            yield answer
        self._enter(answer[0], request, name, number)

    @contextmanager
    def releasing(self, _: Any, hold: Any) -> Iterator[list[Any]]:
        """Tell that user code gives such a hold back."""
        mine = [whose for whose in [*self._open] if whose[0] == id(hold)]
        for whose in mine:
            number = self._open.get(whose, "")
            self._write("client_lock", kind="leaving", number=number, lost=self._is_lost(number))
        try:
            yield []
        finally:
            for whose in mine:
                self._leave(whose)

    @contextmanager
    def breaking(self, client: Any, name: str, notice: Any = None) -> Iterator[list[Any]]:
        """Tell that user code ends the lease of a lock, as an operator does."""
        action = "break slowly" if notice else "break"
        self._write("operator", action=action, lock=name, path=f"{_container(client)}/{name}")
        yield []

    @contextmanager
    def looking(self, how: str, client: Any, name: str) -> Iterator[list[Any]]:
        """Tell that user code reads a lock's blob, which is no request of a caller, and whether it found a holder."""
        began, answer = clock(), list[Any]()
        yield answer
        held = bool(answer[0]) if how == "locked" else answer[0] is not None
        about: dict[str, Any] = {"how": how, "name": name, "where": _container(client), "held": held}
        if getattr(answer[0], "renewed", None) and answer[0].since is not None:
            about["ago"] = round(time.time() - answer[0].since.timestamp(), 1)
        self._write("looked_up", took=round(clock() - began, 4), **about)
        self._write("client_lock", kind="looked", number="", **_Request(client, "look", {}).facts(name))

    @contextmanager
    def _asking(self, request: _Request, name: str, *, asks: bool) -> Iterator[tuple[list[Any], str]]:
        """Tell of a request for one lock, and how it ended, but for a hold. Yield the answer, and the number if told.

        A set asks for its locks one after the other: when for which, only the product knows.
        """
        asks &= request.how != "lock_all" and (request.how != "leadership" or request.recurs)
        number, answer, began = f"{os.getpid()}-{next(self._numbers)}" * asks, list[Any](), clock()
        if asks:
            self._write("client_lock", kind="asked", number=number, **request.facts(name))
        try:
            yield answer, number
        except BaseException as error:
            refused = isinstance(error, LockNotAcquired) and error.reason not in {ENDLESS, REENTRY}
            if refused and request.how == "lock_all" and isinstance(names := request.given.get("names"), list | tuple):
                about = {"names": [*map(str, names)], "where": _container(request.client)}
                about["poll"] = request.client._options.lock_acquisition_polling_interval  # noqa: SLF001
                self._write("set_refused", took=round(clock() - began, 4), **about)
            if asks:
                told = {"kind": "refused"} if refused else {"kind": "failed", "reason": type(error).__name__}
                self._write("client_lock", number=number, **told)
            raise
        if asks and answer[0] is None:
            self._write("client_lock", kind="refused" if request.how == "try_lock" else "failed", number=number)

    @contextmanager
    def _getting(self, thing: Any, *, asks: bool) -> Iterator[list[Any]]:
        """Tell of the holds that user code gets of a block or a candidate, and of the request if it ``asks``."""
        request = self._made.get(thing, _Request())
        name = request.given.get("name", "")
        asks &= bool(request.how) and not self._inside.get(thing)
        with self._asking(request, name, asks=asks) as (answer, number):
            yield answer
        names, holds = request.given.get("names", (name,)), holds_in(answer[0]) if request.how else ()
        for whose in [*self._inside.get(thing, ())] if holds else ():  # who gets another hold has left a lost one
            if whose[0] not in map(id, holds) and self._open.get(whose, "") in self._lost:
                self._leave(whose)
        for place, hold in enumerate(holds):
            what = str(names[place]) if isinstance(names, list | tuple) else hold.lock
            self._inside.setdefault(thing, []).extend(self._enter(hold, request, what, number))

    @contextmanager
    def _ending(self, thing: Any) -> Iterator[None]:
        """Tell that a block or a candidacy ends with its holds."""
        for number in self._numbers_of(thing):
            told = {"lost": self._is_lost(number), "saw": self._saw.pop(number, None)}
            self._write("client_lock", kind="leaving", number=number, **told)
        self._made.pop(thing, None)
        inside = self._inside.pop(thing, [])
        try:
            yield
        finally:
            for whose in inside:
                self._leave(whose)

    def _numbers_of(self, thing: Any) -> list[str]:
        return [self._open[whose] for whose in self._inside.get(thing, ()) if whose in self._open]

    def _begin(self, asker: Any) -> None:
        request = self._made.get(asker)
        if request is not None and request.recurs and id(asker) not in self._begun:
            number = f"{os.getpid()}-{next(self._numbers)}"
            self._begun[id(asker)] = request.client, number
            weakref.finalize(asker, self._over, id(asker)).atexit = False
            self._write("client_lock", kind="begun", number=number, **request.facts(asker.name))

    def _over(self, asker: int) -> None:
        _, number = self._begun.pop(asker, (None, ""))
        if number:
            self._write("client_lock", kind="over", number=number)

    def _enter(self, hold: Hold, request: _Request, name: str, asked: str = "") -> list[tuple[int, str]]:
        number = asked or f"{os.getpid()}-{next(self._numbers)}"
        whose = id(hold), "" if request.how == "leadership" else invoked.get()
        if self._open.setdefault(whose, number) != number:  # a block around this block has it, or a leader looked
            if asked:
                self._write("client_lock", kind="failed", number=number)
            return []
        weakref.finalize(hold, self._leave, whose).atexit = False
        told = {"number": number, "got": hold.lock, "token": hold.token, **request.facts(name)}
        self._write("client_lock", kind="entered", **told)

        def lost(reason: object) -> None:
            self._lost.add(number)
            self._write("client_lock", kind="lost", number=number, reason=reason)

        self._signals[number] = hold.own_lost
        call_at_loss(hold.own_lost, lost)
        return [whose]

    def _is_lost(self, number: str) -> bool:
        """Tell of a loss that user code can see by the clock as it ends: the lock may say so a moment later."""
        if (signal := self._signals.get(number)) and signal.is_set():
            self._lost.add(number)
        return number in self._lost

    def _leave(self, whose: tuple[int, str]) -> None:
        if number := self._open.pop(whose, ""):
            self._signals.pop(number, None)
            self._write("client_lock", kind="left", number=number, lost=number in self._lost)
            self._lost.discard(number)


def called_in() -> dict[str, Any]:
    """Return what a record tells of where user code calls the product: the invocation, and the blocks around."""
    return {"invocation": invoked.get(), "within": [*blocks_around.get()]}


def _container(client: Any) -> str:
    """Return the account and the container of a client's locks."""
    place = client._place  # noqa: SLF001 - which no user asks a client for
    account = urlsplit(getattr(place.account, "endpoint", "")).path.strip("/") or "account"
    return f"{account}/{place.container}"
