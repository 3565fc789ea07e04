"""See when user code is inside of a lock of a lock client: from the grant of a hold until user code gives the hold up.

A ``client_lock`` record tells ``entered``, with what user code asked for and got; ``left``, before the product gives
the lock back; and ``lost``, as ``hold.lost`` tells user code. A dropped hold has ended, too. A break by user code is
told as an operator's deed. `tap_clients` must run before the app is imported.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from simulator.witness.witness import invoked
from singleton.base.hold import LossSignal, holds_in
from singleton.client import AsyncLockClient, LockClient
from singleton.clients.blocks import AsyncBlock, Block, _BaseBlock
from singleton.clients.leadership import Leadership
from singleton.clients.periodic_worker import PeriodicWorker
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simulator.history.journal import Write
    from singleton.base.hold import Hold

_SPANS: Final = ("at_least", "max_hold")
_call_at_loss: Final = LossSignal.add_callback  # before anybody sees the calls of user code


def tap_clients(write: Write) -> None:
    """Write a record of each entry, exit and loss from now on."""
    tap, blocks, leads = _ClientTap(write), cast("Any", _BaseBlock), cast("Any", Leadership)
    for client in (LockClient, AsyncLockClient):
        for name in ("lock", "semaphore", "try_lock", "lock_all", "leadership", "periodic"):
            setattr(client, name, _noting(getattr(client, name)))
        watch(client, tap.acquiring, "acquire")
        watch(client, tap.releasing, "release")
        watch(client, tap.breaking, "break_")
    again = blocks.another
    blocks.another = lambda block: _noted(again(block), *block._asked)  # noqa: SLF001 - as noted
    watch(Block, tap.entering, "__enter__")
    watch(AsyncBlock, tap.entering, "__aenter__")
    watch(blocks, tap.leaving, "_left")
    watch(leads, tap.entering, "wait", "_wait_async")
    leads.hold = property(around(leads.hold.fget, tap.entering))
    watch(leads, tap.leaving, "stop", "__aexit__")
    watch(PeriodicWorker, tap.working, "_do")


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


def _noting(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that notes at what it makes which client was asked, and for what."""
    arguments = inspect.signature(real)

    @functools.wraps(real)
    def made(client: Any, *args: Any, **kwargs: Any) -> Any:
        thing = real(client, *args, **kwargs)
        return _noted(thing, client, arguments.bind(client, *args, **kwargs).arguments)

    return made


def _noted(thing: Any, client: Any, given: dict[str, Any]) -> Any:
    thing._asked = client, given  # noqa: SLF001 - an attribute of this module's
    thing._inside = []  # noqa: SLF001
    return thing


class _ClientTap:
    def __init__(self, write: Write) -> None:
        self._write = write
        self._numbers = itertools.count(1)
        self._open: dict[tuple[int, str], str] = {}  # by the id of a hold, and the invocation that uses the hold

    @contextmanager
    def entering(self, block: Any, *_: Any, **__: Any) -> Iterator[list[Any]]:
        """Tell of the holds that a block or a candidacy has got, unless it has ended."""
        answer: list[Any] = []
        yield answer
        for place, hold in enumerate(holds_in(answer[0]) if block._asked else ()):  # noqa: SLF001
            client, given = block._asked  # noqa: SLF001
            names = given.get("names", [given.get("name")])
            name = names[place] if isinstance(names, list | tuple) else hold.lock
            block._inside += self._enter(hold, client, name, given, leads=isinstance(block, Leadership))  # noqa: SLF001

    @contextmanager
    def leaving(self, block: Any, *_: Any) -> Iterator[list[Any]]:
        """Tell that a block or a candidacy ends; a candidacy may still show its hold, which is on its way back."""
        block._asked = None  # noqa: SLF001
        for whose in block._inside:  # noqa: SLF001
            self._leave(whose)
        yield []

    @contextmanager
    def working(self, worker: Any, hold: Hold) -> Iterator[list[Any]]:
        """Tell of the work of a periodic worker."""
        client, given = worker._asked  # noqa: SLF001
        entered = self._enter(hold, client, worker.name, given)
        try:
            yield []
        finally:
            for whose in entered:
                self._leave(whose)

    @contextmanager
    def acquiring(self, client: Any, name: str, **given: Any) -> Iterator[list[Any]]:
        """Tell of a hold outside of blocks."""
        answer: list[Any] = []
        yield answer
        self._enter(answer[0], client, name, given)

    @contextmanager
    def releasing(self, _: Any, hold: Any) -> Iterator[list[Any]]:
        """Tell that user code gives such a hold back."""
        for whose in [whose for whose in [*self._open] if whose[0] == id(hold)]:
            self._leave(whose)
        yield []

    @contextmanager
    def breaking(self, client: Any, name: str, notice: Any = None) -> Iterator[list[Any]]:
        """Tell that user code ends the lease of a lock, as an operator does."""
        action = "break slowly" if notice else "break"
        self._write("operator", action=action, lock=name, path=f"{_container(client)}/{name}")
        yield []

    def _enter(
        self, hold: Hold, client: Any, name: str, given: dict[str, Any], *, leads: bool = False
    ) -> list[tuple[int, str]]:
        number = f"{os.getpid()}-{next(self._numbers)}"
        whose = id(hold), "" if leads else invoked.get()
        if self._open.setdefault(whose, number) != number:
            return []  # a block around this block has the hold, or a leader looked at its hold before
        weakref.finalize(hold, self._leave, whose).atexit = False
        options, spans = client._options, {span: seconds(given[span], span) for span in _SPANS if given.get(span)}  # noqa: SLF001
        about = {"number": number, "where": _container(client), "name": name, "got": hold.lock, "token": hold.token}
        lease = options.listener_lock_period if leads else options.lock_period
        about |= {"lease": lease, "failover": options.failover, "renewal": options.renewal_interval}
        self._write("client_lock", kind="entered", invocation=invoked.get(), limit=given.get("limit"), **about, **spans)
        _call_at_loss(
            hold.own_lost, lambda reason: self._write("client_lock", kind="lost", number=number, reason=reason)
        )
        return [whose]

    def _leave(self, whose: tuple[int, str]) -> None:
        if number := self._open.pop(whose, ""):
            self._write("client_lock", kind="left", number=number)


def _container(client: Any) -> str:
    """Return the account and the container of a client's locks."""
    place = client._place  # noqa: SLF001 - which no user asks a client for
    account = urlsplit(getattr(place.account, "endpoint", "")).path.strip("/") or "account"
    return f"{account}/{place.container}"
