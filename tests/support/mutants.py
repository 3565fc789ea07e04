"""Break the core on purpose: a change of its source text, applied to the running code, and taken back.

Every test sees the broken code without importing anything anew, since the code objects themselves are exchanged. A
mutant whose text is not in the source any more fails: it can't rot.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import types
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True, slots=True)
class Mutant:
    """In ``singleton.<module>``, ``old`` becomes ``new``."""

    name: str
    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Run the block with this mutant in place of the real code."""
    module = importlib.import_module(f"singleton.{mutant.module}")
    source = inspect.getsource(module)
    assert source.count(mutant.old) == 1, f"{mutant.name}: its text is {source.count(mutant.old)} times in {module}"
    broken = types.ModuleType(module.__name__)
    broken.__file__ = module.__file__
    text = source.replace(mutant.old, mutant.new)
    exec(compile(text, module.__file__ or "", "exec"), vars(broken))  # noqa: S102 - our own source
    pairs = list(_functions(module, broken))
    before = [function.__code__ for function, _ in pairs]
    constants = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, int | float) and vars(broken).get(name, value) != value
    }
    try:
        for function, other in pairs:
            function.__code__ = other.__code__
        for name in constants:
            setattr(module, name, vars(broken)[name])
        yield
    finally:
        for (function, _), code in zip(pairs, before, strict=True):
            function.__code__ = code
        for name, value in constants.items():
            setattr(module, name, value)


def _functions(module: Any, broken: Any) -> Iterator[tuple[types.FunctionType, types.FunctionType]]:
    """Return the functions and methods of a module, each with its counterpart."""
    for name, thing in vars(module).items():
        other = vars(broken).get(name)
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if isinstance(thing, types.FunctionType):
            yield inspect.unwrap(thing), inspect.unwrap(_counterpart(other))  # a context manager's is its generator
        elif isinstance(thing, type):
            for attribute, member in vars(thing).items():
                theirs = vars(other).get(attribute)
                if isinstance(member, property):
                    member, theirs = member.fget, getattr(theirs, "fget", None)  # noqa: PLW2901
                if isinstance(member, types.FunctionType) and member.__module__ == module.__name__:
                    yield member, _counterpart(theirs)


def _counterpart(other: object) -> types.FunctionType:
    assert isinstance(other, types.FunctionType)
    return other


def found_by_random(mutant: Mutant, strategy: SearchStrategy[Any], play: Callable[[Any], None]) -> None:
    """Fail unless one of 2,000 random schedules shows the mutant."""

    @settings(
        max_examples=2000,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def search(schedule: Any) -> None:
        play(schedule)

    with applied(mutant), pytest.raises((AssertionError, BaseExceptionGroup)):
        search()
    gc.collect()


def fails_its_test(mutant: Mutant, test: Callable[[], object]) -> None:
    """Fail unless the test does with this mutant, in whatever way."""
    with applied(mutant), pytest.raises(BaseException):  # noqa: B017, PT011 - in whatever way
        test()
    gc.collect()
