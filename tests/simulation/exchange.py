"""Plant a bug into modules that are imported already, by giving functions other code.

To import everything anew for each bug would take longer than to find it.
"""

from __future__ import annotations

import gc
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def exchange(path: str, right: str, wrong: str) -> bool:
    """Have the functions of the module at ``path`` do what its wrong source says.

    Returns:
        False, and nothing was done: not only the bodies of functions differ, or one of them is not there any more. The
        module has to be imported anew, and all that has imported it.
    """
    before, after = (compile(source, path, "exec", dont_inherit=True) for source in (right, wrong))
    if _meaning(before, inner=False) != _meaning(after, inner=False):
        return False
    pairs = zip(_functions(before), _functions(after), strict=True)
    other = {old: new for old, new in pairs if _meaning(old) != _meaning(new)}
    living = [thing for thing in gc.get_objects() if type(thing) is FunctionType and thing.__code__ in other]
    living = [function for function in living if function.__code__.co_filename == path]
    fits = all(len(old.co_freevars) == len(new.co_freevars) for old, new in other.items())
    if not fits or {function.__code__ for function in living} != set(other):
        return False
    for function in living:
        function.__code__ = other[function.__code__]
    return True


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions of a module and of its classes, in order, without those within functions."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_flags & inspect.CO_OPTIMIZED:
                yield const
            else:
                yield from _functions(const)


def _meaning(code: CodeType, *, inner: bool = True) -> tuple[Any, ...]:
    """Return all of a code but its line numbers; with ``inner`` false, without what its functions do."""
    return (
        *(code.co_name, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *(_const(const, inner=inner) for const in code.co_consts),
    )


def _const(const: object, *, inner: bool) -> object:
    if not isinstance(const, CodeType):
        return repr(const)
    if inner or not const.co_flags & inspect.CO_OPTIMIZED:
        return _meaning(const, inner=inner)
    return const.co_name
