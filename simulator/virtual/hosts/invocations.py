"""Invocations as the worker makes them: what a host's journal says of them, and what the oracle is told."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from simulator.virtual.hosts.jobs import InvocationContext
from simulator.virtual.time.machine import HOST, Baton
from simulator.virtual.worlds.outcome import Refused
from simulator.witness.witness import Witness
from singleton.base.errors import SingletonError
from singleton.decorator import guards_of
from singleton.functions.body_context import current_hold

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World


def _tell(event: str, /, **fields: object) -> None:
    """Write down what was seen on the machine on which it happened."""
    machine = HOST.get()
    if machine is not None:
        machine.tell(event, **fields)


WITNESS: Final = Witness(_tell, current_hold)
"""Sees the bodies of all worlds, as a host does those of its app."""


def declare(world: World, functions: Mapping[str, Callable[..., Any]], *, queue: str = "") -> None:
    """Tell oracle and verdict of the guarded functions that will be called; ``queue`` triggers them."""
    guards = {name: guards_of(function)[0] for name, function in functions.items()}
    WITNESS.watch(functions)
    world.oracle.callers.know(guards)
    for name, function in functions.items():
        is_async = inspect.iscoroutinefunction(function)
        world.note("world", "function", witnessed=True, **told_of(name, guards[name], queue=queue, is_async=is_async))


class Declaration(Protocol):
    """The facts of a declaration."""

    @property
    def on_contention(self) -> object:
        """Its policy."""

    @property
    def period(self) -> float:
        """Seconds of its leases."""

    @property
    def poll(self) -> float:
        """Seconds between two looks at the lock, at most."""

    @property
    def wait(self) -> float | None:
        """Seconds for which its callers wait."""

    @property
    def mode(self) -> str:
        """Its mode."""


def told_of(name: str, guard: Declaration | None, *, queue: str, is_async: bool) -> dict[str, Any]:
    """Return what a host's journal says of a function, as far as the verdict needs it."""
    told: dict[str, Any] = {"name": name, "trigger": "queue" if queue else "", "queue": queue, "async": is_async}
    if guard is None:
        return {**told, "guarded": False}
    policy = guard.on_contention if isinstance(guard.on_contention, str) else "custom"
    about = {"lease": guard.period, "poll": guard.poll, "timeout": guard.wait, "tokens": True}
    return {**told, "guarded": True, "mode": guard.mode, "on_contention": policy, **about}


async def run_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function as the worker does: a sync one on a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await Baton.run(lambda: function(**arguments))


async def invoke_one(
    world: World,
    machine: Machine,
    functions: Mapping[str, Callable[..., Any]],
    kind: str,
    invocation: str,
    *,
    key: str,
    message: str | None = None,
    **arguments: object,
) -> str:
    """Run one of these functions, which must ask for the lock of ``key``; see ``invoke``."""
    work = partial(run_function, functions[kind], {**arguments, "context": InvocationContext(kind, invocation)})
    more: dict[str, Any] = {"message": message, "keys": {"function": key}, "failures": (RuntimeError,)}
    return await invoke(world, machine, kind, invocation, work, **more)


async def invoke(
    world: World,
    machine: Machine,
    function: str,
    invocation: str,
    work: Callable[[], Awaitable[None]],
    *,
    message: str | None = None,
    keys: Mapping[str, str | None] | None = None,
    failures: tuple[type[Exception], ...] = (),
) -> str:
    """Run one invocation, for the message of this id; return ``ok``, ``failed``, or the name of its error.

    ``keys`` has the key of the lock for each mode; ``failures`` are what a function may raise of its own.
    """
    outcome, blamed = "cancelled", ""
    world.oracle.listening.invoked(machine, invocation, function)
    world.note(machine.name, "invocation_started", function=function, invocation=invocation, message=message)
    if keys is not None:
        world.note(machine.name, "expected", invocation=invocation, keys=keys)
    try:
        with WITNESS.invocation(invocation, function, object(), {"message": message}):
            await work()
        outcome = "ok"
    except SingletonError as error:
        outcome = blamed = type(error).__name__
    except Refused as error:
        outcome = type(error).__name__
    except failures:
        outcome = "failed"
    except asyncio.CancelledError:
        if invocation not in world.cancelled:
            world.oracle.blame("cancelled by nobody", f"{invocation} ended with a cancellation that nobody asked for")
        world.note(machine.name, "invocation_ended", invocation=invocation, outcome="error", error="CancelledError")
        raise
    finally:
        world.oracle.callers.ended(machine, invocation, outcome)
        world.oracle.listening.ended(machine, invocation, outcome)
    told = {"outcome": "ok"} if outcome == "ok" else {"outcome": "error", "error": outcome, "blames": blamed}
    world.note(machine.name, "invocation_ended", invocation=invocation, **told)
    return outcome
