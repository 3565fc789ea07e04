"""Guards that are not as the app has declared them, and say of themselves that they are as they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton import decorator
from singleton.functions import arguments
from tests.broken.breaking import broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broken.breaking import Patch


def _declare_otherwise(patch: Patch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Make guards of other arguments than the app's."""
    real = arguments.guard_by

    def guard_by(given: arguments.Arguments, *args: Any) -> Any:
        return real(arguments.Arguments(**{**vars(given), **change(vars(given))}), *args)

    patch.setattr(arguments, "guard_by", guard_by)


@broken("more than 3 bodies of one semaphore", app="options")
def one_more_is_let_in_than_the_limit(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"limit": given["limit"] and given["limit"] + 1})


@broken("gave up (timeout), though on_contention='wait'", app="options")
def waits_end_after_a_fifth_of_a_second(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"timeout": 0.2} if given["on_contention"] == "wait" else {})


@broken("gave up (skip), though on_contention='wait'", app="options")
def who_should_wait_skips(patch: Patch) -> None:
    _declare_otherwise(patch, lambda given: {"on_contention": "skip"} if given["on_contention"] == "wait" else {})


@broken("ran without holding the lock", app="options")
def the_decorator_does_nothing(patch: Patch) -> None:
    patch.setattr(decorator, "_guarded", lambda target, _: target)
