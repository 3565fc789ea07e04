"""A block in which a context variable has a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from contextvars import ContextVar, Token

_T = TypeVar("_T")


class Valued(Generic[_T]):
    """Give the variable a value for the length of the block. Enter once.

    A generator would take nearly three times as long, and every request for a lock enters several blocks.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: _T) -> None:
        self._variable = variable
        self._value = value
        self._token: Token[Any]

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)
