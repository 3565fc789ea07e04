"""Learn when a function's own code begins and ends, for every caller and through all wrappers.

On Python 3.12 and later ``sys.monitoring`` reports it for the code object. On 3.11 the function's code is replaced by
code that reports and then runs the original: every caller of the function runs that. A coroutine begins with its first
step and ends with its last, also when it is closed.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType, FunctionType
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


def watch(function: FunctionType, watcher: Watcher) -> CodeType:
    """Report each run of this function to ``watcher`` from now on; return the code object of the function."""
    if sys.version_info >= (3, 12):
        return _monitor().watch(function, watcher)
    return replace_code(function, watcher)


# --- Python 3.12 and later ------------------------------------------------------------------------------------------

if sys.version_info >= (3, 12):
    _TOOL: Final = 4  # none of the ids that debuggers, coverage and profilers use by convention

    class _Monitor:
        """The only tool of this process. A code object has a separate watcher."""

        def __init__(self) -> None:
            self._watchers: dict[int, tuple[CodeType, Watcher]] = {}  # by id: code of another function may be equal
            self._yielded: dict[FrameType, Yielded] = {}
            tools, events = sys.monitoring, sys.monitoring.events
            tools.use_tool_id(_TOOL, "singleton-sim")
            tools.register_callback(_TOOL, events.PY_START, self._started)
            tools.register_callback(_TOOL, events.PY_YIELD, self._yields)
            tools.register_callback(_TOOL, events.PY_RETURN, self._returned)
            tools.register_callback(_TOOL, events.PY_UNWIND, self._unwound)
            tools.set_events(_TOOL, events.PY_UNWIND)  # this can be switched on for all code or for none

        def watch(self, function: FunctionType, watcher: Watcher) -> CodeType:
            code = function.__code__
            self._watchers[id(code)] = code, watcher
            events = sys.monitoring.events
            yields = events.PY_YIELD if code.co_flags & inspect.CO_GENERATOR else 0
            sys.monitoring.set_local_events(_TOOL, code, events.PY_START | events.PY_RETURN | yields)
            return code

        def _started(self, code: CodeType, _: int) -> None:
            frame = sys._getframe(1)  # noqa: SLF001 - the one way to tell two runs of one code apart
            count = code.co_argcount + code.co_kwonlyargcount
            more = (code.co_flags & inspect.CO_VARARGS > 0) + (code.co_flags & inspect.CO_VARKEYWORDS > 0)
            known = frame.f_locals
            arguments = {name: known[name] for name in code.co_varnames[: count + more] if name in known}
            if code.co_flags & inspect.CO_GENERATOR:
                self._yielded[frame] = Yielded()
            self._watchers[id(code)][1].entered(code, frame, arguments)

        def _yields(self, _: CodeType, __: int, value: object) -> None:
            if (yielded := self._yielded.get(sys._getframe(1))) is not None:  # noqa: SLF001
                yielded.append(value)

        def _returned(self, code: CodeType, _: int, value: object) -> None:
            self._left(code, sys._getframe(1), value, None)  # noqa: SLF001

        def _unwound(self, code: CodeType, _: int, error: BaseException) -> None:
            if id(code) in self._watchers:
                self._left(code, sys._getframe(1), None, error)  # noqa: SLF001

        def _left(self, code: CodeType, frame: FrameType, value: object, error: BaseException | None) -> None:
            if (yielded := self._yielded.pop(frame, None)) is not None:
                value, yielded.ended = yielded, error is None
            self._watchers[id(code)][1].left(code, frame, value, error)

    @cache
    def _monitor() -> _Monitor:
        return _Monitor()


# --- Python 3.11 ----------------------------------------------------------------------------------------------------

_CALL: Final = "the call"
_SOURCES: Final = {
    "plain": "def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return call(args, kwargs)",
    "coroutine": "async def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return await call(args, kwargs)",
    "generator": "def f(*args, **kwargs):\n  {free}\n  call = 'the call'\n  return (yield from call(args, kwargs))",
}


def replace_code(function: FunctionType, watcher: Watcher) -> CodeType:
    """Give a function code that reports to ``watcher`` and runs the old code; return the old code."""
    code = function.__code__
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(function)
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
    takes = inspect.signature(original)  # a new function, which can't be confused with another

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
            yield from noted(original(*args, **kwargs), run.value)

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
