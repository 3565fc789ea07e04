"""Locks that change what they pass on: a body's arguments, its result and outputs; and answers before a body's end."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import azure.functions as func

from singleton.base.errors import ConfigurationError
from singleton.functions import guard
from singleton.functions.guard import Guard
from singleton.functions.triggers import Signature
from tests.broken.breaking import Now, around, broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broken.breaking import Patch

_TASKS: list[object] = []


def _given(patch: Patch, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Call each body with other arguments, after its lock's name was found."""

    def made(real: Any) -> Any:
        return lambda self, call, body: real(self, call, partial(body.func, *body.args, **changed({**body.keywords})))

    for name in ("run", "run_async"):
        around(patch, Guard, name, made)


@broken("called its body with another 'msg'")
def one_body_in_three_gets_the_message_before(patch: Patch) -> None:
    now = Now(3)
    before: dict[str, Any] = {}

    def changed(given: dict[str, Any]) -> dict[str, Any]:
        mine, given["msg"] = given.get("msg"), before.get("msg", given.get("msg")) if now() else given.get("msg")
        before["msg"] = mine
        return given

    _given(patch, lambda given: changed(given) if "msg" in given else given)


@broken("called its body with another 'msg'", app="yields")
def messages_are_made_anew_with_a_blank(patch: Patch) -> None:
    def changed(given: dict[str, Any]) -> dict[str, Any]:
        msg = given["msg"]
        return {**given, "msg": func.QueueMessage(id=msg.id, body=msg.get_body() + b" ", pop_receipt=msg.pop_receipt)}

    _given(patch, changed)


@broken("another value of its output", app="yields")
def bodies_set_copies_of_their_outputs(patch: Patch) -> None:
    _given(patch, lambda given: {**given, "out": copy.copy(given["out"])} if "out" in given else given)


@broken("called its body with another 'msg'", app="yields")
def messages_are_changed_in_place(patch: Patch) -> None:
    def changed(given: dict[str, Any]) -> dict[str, Any]:
        given["msg"]._QueueMessage__body += b" "
        return given

    _given(patch, changed)


@broken("called its body with another 'blob'", app="deliveries")
def blobs_are_read_to_their_end(patch: Patch) -> None:
    def changed(given: dict[str, Any]) -> dict[str, Any]:
        if "blob" in given:
            given["blob"].read()
        return given

    _given(patch, changed)


@broken("called its body with another 'order'", app="deliveries")
def activities_lose_a_field_in_place(patch: Patch) -> None:
    def changed(given: dict[str, Any]) -> dict[str, Any]:
        given.get("order", {}).pop("Id", None)
        return given

    _given(patch, changed)


@broken("called its body with another 'context'", app="replies")
def bodies_get_the_first_context(patch: Patch) -> None:
    first: list[Any] = []

    def changed(given: dict[str, Any]) -> dict[str, Any]:
        first.append(given.get("context"))
        return {**given, "context": first[0]} if "context" in given else given

    _given(patch, changed)


@broken("called its body with another 'context'", app="contexts")
def guards_take_the_first_context(patch: Patch) -> None:
    first: dict[object, Any] = {}

    def made(real: Any) -> Any:
        def split(self: Any, args: Any, kwargs: Any) -> Any:
            if "context" in kwargs and "context" in self._users.parameters:
                kwargs["context"] = first.setdefault(self, kwargs["context"])
            return real(self, args, kwargs)

        return split

    around(patch, Signature, "split", made)


@broken("ended while its body still ran", app="replies")
def requests_are_answered_before_their_bodies_end(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any) -> Any:
            task = asyncio.ensure_future(real(self, call, body))
            _TASKS.append(task)
            await asyncio.wait([task], timeout=0.1)
            return task.result() if task.done() else func.HttpResponse(status_code=201)

        return run

    around(patch, Guard, "run_async", made)


@broken("ended while its body still ran", app="long")
def messages_are_deleted_before_their_bodies_end(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any) -> None:
            task = asyncio.ensure_future(real(self, call, body))
            _TASKS.append(task)
            await asyncio.wait([task], timeout=0.3)

        return run

    around(patch, Guard, "run_async", made)


def _results(patch: Patch, changed: Callable[[Any, Any], Any]) -> None:
    """Make something else of each result, and its list if it is iterated over."""

    def made(real: Any) -> Any:
        async def settled(result: Any, *args: Any, **more: Any) -> Any:
            return changed(result, await real(result, *args, **more))

        return settled

    around(patch, guard, "settled", made)


@broken("returned something else than its body", app="yields")
def the_last_item_of_a_generator_is_dropped(patch: Patch) -> None:
    _results(patch, lambda before, after: after[:-1] if isinstance(after, list) and after is not before else after)


@broken("returned something else than its body", app="items")
def the_last_item_of_a_map_is_dropped(patch: Patch) -> None:
    _results(patch, lambda before, after: after[:-1] if isinstance(after, list) and after is not before else after)


@broken("returned something else than its body", app="yields")
def the_last_item_of_a_list_is_dropped_in_place(patch: Patch) -> None:
    def changed(before: Any, after: Any) -> Any:
        if after is before and isinstance(after, list):
            after.pop()
        return after

    _results(patch, changed)


@broken("nothing in what its body had returned runs later", app="answers")
def texts_are_refused_as_late_work(patch: Patch) -> None:
    now = Now(3)

    def changed(_: Any, after: Any) -> Any:
        if now():
            raise ConfigurationError("no")
        return after

    _results(patch, changed)


@broken("returned something else than its body", app="replies")
def statuses_are_all_200(patch: Patch) -> None:
    def changed(_: Any, after: Any) -> Any:
        return func.HttpResponse(after.get_body()) if isinstance(after, func.HttpResponse) else after

    _results(patch, changed)


@broken("handed on another value of its output 'out'", app="yields")
def outputs_are_set_to_their_first_words(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def answered(self: Any, call: Any, *args: Any, **more: Any) -> Any:
            result = await real(self, call, *args, **more)
            if "out" in call.arguments:
                call.arguments["out"].set("noted")
            return result

        return answered

    around(patch, Guard, "_answered", made)


@broken("handed on another value of its output 'more'", app="yields")
def an_iterator_in_an_output_loses_its_first_item(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def settling(result: Any, arguments: Any, *args: Any, **more: Any) -> Any:
            arguments = [*arguments]
            for each in arguments:
                if type(each).__name__ == "Out" and isinstance(items := each.get(), Iterator):
                    next(items, None)
                    each.set([*items])
            return await real(result, arguments, *args, **more)

        return settling

    around(patch, guard, "settled", made)


@broken("returned a value though no body of it had run", app="policies")
def who_is_skipped_says_so(patch: Patch) -> None:
    def made(real: Any) -> Any:
        async def run(self: Any, *args: Any, **more: Any) -> Any:
            result = await real(self, *args, **more)
            return "skipped" if result is None else result

        return run

    around(patch, Guard, "_run", made)
