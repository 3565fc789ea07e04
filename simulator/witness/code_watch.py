"""Learn when a function's own code begins and ends, for every caller and through all wrappers.

The function's code is replaced by code that reports and then runs the original: every caller of the function runs the
new code. ``sys.monitoring`` would not do: functions that one factory has made share their code object, and no event
tells from Python 3.13 on that a generator was closed at a plain ``yield``. A coroutine begins with its first step and
ends with its last, also when it is closed.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from simulator.witness.value_form import Yielded, noted, passed_on

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping


class Watcher(Protocol):
    """Receives the reports. Each run of the code has a ``run``, an object of its own."""

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        """It begins; ``arguments`` are by name."""

    def left(self, code: CodeType, run: object, value: object, error: BaseException | None) -> None:
        """It has ended: with its result, or by an error. The result of a generator is what it has ``Yielded``."""


_CALL: Final = "the call"
_SOURCES: Final = {
    "plain": "def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return call(args, kwargs)",
    "coroutine": "async def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return await call(args, kwargs)",
    "generator": "def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return (yield from call(args, kwargs))",
}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. From Python 3.14 on a name in its annotations may have no value yet."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def watch(function: FunctionType, watcher: Watcher) -> CodeType:
    """Report each run of this function to ``watcher`` from now on; return the code object that stands for it alone."""
    code = function.__code__.replace()
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    signature = signature_of(function)
    kind, call = _telling(original, code, watcher)
    function.__code__ = _trampoline(code, kind, call)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return code


def _telling(
    original: FunctionType, code: CodeType, watcher: Watcher
) -> tuple[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]]:
    """Return code of the original's kind that calls it, and reports its begin and its end.

    A call with wrong arguments runs nothing of it, and nothing is reported.
    """
    takes = signature_of(original)  # a new function, which can't be confused with another

    class BodyRun:
        """One run of it."""

        def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.value: object = None
            self._arguments: Mapping[str, Any] | None = None
            with suppress(TypeError):  # the call itself will raise it
                self._arguments = takes.bind(*args, **kwargs).arguments

        def __enter__(self) -> Self:
            if self._arguments is not None:
                watcher.entered(code, self, self._arguments)
            return self

        def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
            if self._arguments is not None:
                watcher.left(code, self, self.value, error)

    def plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with BodyRun(args, kwargs) as run:
            return passed_on(run, original(*args, **kwargs))

    async def coroutine(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with BodyRun(args, kwargs) as run:
            return passed_on(run, await original(*args, **kwargs))

    def generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]:
        with BodyRun(args, kwargs) as run:
            run.value = Yielded()
            return (yield from noted(original(*args, **kwargs), run.value))

    if inspect.iscoroutinefunction(original):
        return "coroutine", coroutine
    return ("generator", generator) if inspect.isgeneratorfunction(original) else ("plain", plain)


def _trampoline(code: CodeType, kind: str, call: object) -> CodeType:
    """Return code that only does ``call``. It has the name, the place and as many free variables as ``code``."""
    cells = [f"cell{number}" for number in range(len(code.co_freevars))]
    inner = _SOURCES[kind].format(free="".join(f"{cell}, " for cell in cells) or "pass").replace("\n", "\n  ")
    made: dict[str, Any] = {}
    exec(f"def make({', '.join(cells)}):\n  {inner}\n  return f", made)  # noqa: S102 - no text of anybody's is in it
    template: CodeType = made["make"](*cells).__code__
    return template.replace(
        co_consts=tuple(call if constant == _CALL else constant for constant in template.co_consts),
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )
