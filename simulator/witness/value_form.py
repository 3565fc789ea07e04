"""Values as the witness compares them, and what generators yield, seen on the way to who asks for it.

The form of a value is a short digest, by which two values are compared, and words for a person, without content.
Equal values have equal forms: bytes and a bytearray, a list and a tuple. An object counts by its attributes; an object
without attributes, an iterator and an awaitable count by identity, but a stream of the worker's by its content.
"""

from __future__ import annotations

import io
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from itertools import chain
from types import FunctionType, GeneratorType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from simulator.history.value_digest import UNREADABLE, digest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_MOST: Final = 10_000
"""How many values inside a value are read."""
_ADAPTERS: Final = (enumerate, filter, map, zip, *(each for each in vars(itertools).values() if isinstance(each, type)))
_WRITTEN: Final = frozenset({"datetime", "decimal", "uuid"})
"""Modules of classes whose objects are told apart by ``repr``."""
_OF_WORKER: Final = ("azure.functions.", "werkzeug.datastructures")
_FILLED_LATER: Final = ("_pyobj", "__form", "__files", "__form_parsed")
"""Ends of the names of attributes in which messages and requests keep what somebody has read."""


@dataclass(frozen=True, slots=True)
class Form:
    """What stands for a value. ``plain``: all of it was read, and no class of the app's is in it."""

    words: str = field(compare=False)
    digest: str
    plain: bool = field(compare=False)

    def __str__(self) -> str:
        return f"{self.words} {self.digest}"


def form_of(value: object) -> Form:
    """Return the form of a value.

    >>> form_of([b"ab"]) == form_of((bytearray(b"ab"),)), form_of([1, 2]) == form_of([1])
    (True, False)
    """
    left, plain, digest = _MOST, True, blake2b(digest_size=4)
    unread: list[Any] = [value]
    try:
        while unread and left:
            left -= 1
            tag, content, inner, known = _parts(unread.pop())
            plain &= known
            digest.update(b"%s:%d:" % (tag.encode(), len(content)) + content)
            unread += inner
        return Form(_words(value), digest.hexdigest(), plain and not unread)
    except Exception:  # noqa: BLE001 - of a class of the app's own
        return Form(type(value).__name__, f"{id(value):x}", plain=False)


def is_lazy(value: object) -> bool:
    """Tell whether a value is an iterator, or must be awaited."""
    return any(hasattr(type(value), name) for name in ("__next__", "__anext__", "__await__"))


def is_delivered(value: object) -> bool:
    """Tell whether the worker has made a value for one invocation: a message, a request, a batch of messages."""
    first = value[0] if type(value) is list and value else value
    return str(type(first).__module__).startswith(_OF_WORKER)


def is_output(value: object) -> bool:
    """Tell whether a value is the worker's object behind a ``func.Out`` parameter."""
    return type(value).__name__ == "Out" and str(type(value).__module__).startswith("simulator.host.")


def _words(value: Any) -> str:
    kind = type(value)
    if value is None or not isinstance(value, str | bytes | list | tuple | dict):
        status = getattr(value, "status_code", None) if kind.__module__.startswith(_OF_WORKER) else None
        return f"{kind.__name__} {status}" if status else kind.__name__.removesuffix("Type")
    return f"{kind.__name__} of {len(value)}"


def _parts(value: Any) -> tuple[str, bytes, Iterable[Any], bool]:
    """Return a tag of a value, its content, the values inside, and whether it is no object of the app's."""
    kind = type(value)
    if issubclass(kind, Enum) or kind.__module__ in _WRITTEN or kind in (type(None), bool, int, float, complex):
        return kind.__name__, repr(value).encode(), (), True
    if issubclass(kind, str):
        return "str", str.encode(value, "utf-8", "surrogatepass"), (), True
    if issubclass(kind, bytes | bytearray | memoryview):
        return "bytes", bytes(value), (), True
    if issubclass(kind, list | tuple):
        items = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        return "list", b"%d" % len(value), items, True
    if issubclass(kind, dict | MappingProxyType):
        pairs = dict.items(value) if issubclass(kind, dict) else value.items()
        return "dict", b"%d" % len(pairs), chain.from_iterable(pairs), True
    if issubclass(kind, set | frozenset):
        return "set", repr(sorted(form_of(each).digest for each in value)).encode(), (), True
    if issubclass(kind, io.BytesIO):
        return "stream", b"%d:%s" % (value.tell(), value.getvalue()), (), True
    attributes, workers = getattr(value, "__dict__", None), kind.__module__.startswith(_OF_WORKER)
    lazy = is_lazy(value) and not workers
    if type(attributes) is not dict or lazy or issubclass(kind, type | FunctionType | ModuleType):
        return kind.__qualname__, b"%x" % id(value), (), False
    told = sorted(name for name in attributes if not name.endswith(_FILLED_LATER))
    inner = [part for name in told for part in (name, attributes[name])]
    return f"{kind.__module__}.{kind.__qualname__}", b"%d" % len(told), inner, workers


def kept_digest(value: object) -> str:
    """Return the digest of what `@once` may keep. Items that nobody has asked for yet have none."""
    return UNREADABLE if isinstance(value, Yielded) and not value.ended else digest(value)


class Yielded(list[Any]):
    """The values that a generator has yielded so far; ``ended``: it has no more; ``error``: with which it failed."""

    ended = False
    error: BaseException | None = None


def noted(generator: Generator[Any, Any, Any], yielded: Yielded) -> Generator[Any, Any, Any]:
    """Yield what a generator yields, and note it; pass on what is sent and thrown, and its result."""
    try:
        value = next(generator)
        while True:
            yielded.append(value)
            try:
                sent = yield value
            except BaseException as error:  # noqa: BLE001 - the generator may handle it
                value = generator.throw(error)
            else:
                value = generator.send(sent)
    except StopIteration as end:
        yielded.ended = True
        return end.value
    except BaseException as error:
        yielded.error = error
        raise


def passed_on(run: Any, value: Any) -> Any:
    """Return a function's result for the caller. ``run.value`` becomes the result, or the values of an iterator.

    The iterators are those that run code of the app's. The lock refuses a generator where it refuses a ``map``.
    """
    kind, run.value = type(value), value
    if kind is GeneratorType or issubclass(kind, _ADAPTERS):
        run.value = Yielded()
        return noted(value if kind is GeneratorType else (item for item in value), run.value)
    if isinstance(getattr(kind, "__next__", None), FunctionType) and not hasattr(kind, "__aiter__"):
        with suppress(Exception):  # of the app's class: what it yields is not known then
            run.value = _noted_in_place(value)
    return value


def _noted_in_place(iterator: Any) -> Yielded:
    """Note what an iterator of the app's own yields; it keeps its attributes and its class's name."""
    kind, yielded = type(iterator), Yielded()

    def following(self: Any) -> Any:
        try:
            yielded.append(kind.__next__(self))
        except StopIteration:
            yielded.ended = True
            raise
        except BaseException as error:
            yielded.error = error
            raise
        return yielded[-1]

    if iter(iterator) is not iterator:
        raise TypeError(kind)
    following.__code__ = following.__code__.replace(co_filename=kind.__next__.__code__.co_filename)  # code of the app's
    names = {name: vars(kind).get(name, "") for name in ("__module__", "__doc__")}
    iterator.__class__ = type(kind.__name__, (kind,), {**names, "__slots__": (), "__next__": following})
    return yielded
