"""The work of a run: made for the scope of each function, or the user's own; and when to send it.

A made message carries one of a few keys, and so contends with other messages for a lock:

    scope="Order:Customer"         →  {"Order": {"Customer": "alpha"}, "Number": 17}
    scope_id="{Region}-{Zone.Id}"  →  {"Region": "bravo", "Zone": {"Id": "bravo"}, "Number": 18}

Messages are sent steadily, with repeats, and no faster than processed: of each key only a few are under way at a time,
so that the run can end. Requests of HTTP functions are made likewise.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simulator.work.own import Outgoing
from simulator.work.request_specs import KEYS, body_with, make_request
from singleton.base.errors import ScopeError
from singleton.scopes.template import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simulator.work.apps import App, AppFunction

PER_SECOND: Final = 8.0  # over all sources together
QUEUE_PER_SECOND: Final = 4.0
UNDER_WAY: Final = 4  # of one key
LARGE_EVERY: Final = 15.0
"""Seconds from one large message to the next."""
LARGE_FROM: Final = 20.0
"""Seconds that a run must last to have any."""
REPEAT: Final = 0.4  # how often a message has the key of the one before it


class Feeder:
    """Decides what to send when; the caller sends it, and says how much of each key is under way."""

    def __init__(
        self,
        app: App,
        *,
        seed: int,
        duration: float,
        own: Mapping[str, Sequence[Outgoing]] | None = None,
        large: bool = False,
    ) -> None:
        """Plan a run of an app; keys and pauses come from the seed.

        Args:
            duration: seconds during which messages are sent.
            own: the user's messages by source: a message is sent once. No message is made for a source of these kinds.
            large: whether a message now and then asks for a body that is longer than a lease, with ``"Large": true``.
        """
        self._app = app
        self._random = random.Random(f"feed {seed}")
        self._duration = duration
        theirs = {_kind(source) for source in own or ()}
        made = [source for source in app.fed if _kind(source) not in theirs and _can_be_made(app, source)]
        self._rate = min(QUEUE_PER_SECOND, PER_SECOND / max(len(made), 1))
        self._last: dict[str, str] = {}
        self._numbers = dict.fromkeys(made, 0)
        self._keys = {source: _keys(app, source) for source in made}
        self._due = {source: self._random.uniform(0, 1 / self._rate) for source in made}
        self._large = {source: _large(duration) if large else [] for source in made}
        self._own = sorted(_spread(app, own or {}, duration), key=lambda entry: entry[:2])

    def due(self, now: float, under_way: Mapping[tuple[str, str], int]) -> list[Outgoing]:
        """Return what is to be sent by `now`, in seconds since the run's start.

        ``under_way`` counts the messages of each queue and key that were sent and are not done yet.
        """
        messages = [message for at, _, message in self._own if at <= now]
        self._own = [entry for entry in self._own if entry[0] > now]
        for queue, at in self._due.items():
            if at <= now < self._duration:
                self._due[queue] = now + self._random.uniform(0.5, 1.5) / self._rate
                key = self._key(queue, under_way)
                if key is not None:
                    self._numbers[queue] += 1
                    messages.append(self._message(queue, key, now))
        return messages

    def extend(self, until: float) -> None:
        """Go on to make messages for longer than planned."""
        self._duration = max(self._duration, until)

    def finished(self, now: float) -> bool:
        """Tell whether nothing more will be sent."""
        return not self._own and (now >= self._duration or not self._due)

    def _key(self, queue: str, under_way: Mapping[tuple[str, str], int]) -> str | None:
        """Choose a key: first each key once, then any key, often the last key again."""
        number, keys = self._numbers[queue], self._keys[queue]
        chosen = keys[number] if number < len(keys) else self._random.choice(keys)
        if number >= len(keys) and self._random.random() < REPEAT:
            chosen = self._last[queue]
        at = keys.index(chosen)
        for key in (*keys[at:], *keys[:at]):
            if under_way.get((queue, key), 0) < UNDER_WAY:
                self._last[queue] = key
                return key
        return None

    def _message(self, source: str, key: str, now: float) -> Outgoing:
        listeners, number = self._app.of(source), self._numbers[source]
        if listeners[0].route is not None:
            return Outgoing(source, "", key, request=make_request(listeners[0], key, number))
        session = {"SessionId": key} if any(function.sessions for function in listeners) else {}
        body = make_body(listeners, key, number)
        if (due := self._large[source]) and now >= due[0] and (larger := _larger(body)) != body:
            due.pop(0)
            body = larger
        return Outgoing(source, body, key, metadata=session)


def make_body(functions: Sequence[AppFunction], key: str, number: int) -> str:
    """Make a body from which each of these functions can take its scope; the scope's value is `key`."""
    once = [path for function in functions for path in function.once]
    return body_with(((function.scope, function.paths) for function in functions), key, number, once)


def _larger(body: str) -> str:
    """Say in a made body that it is large; a body that is no object, or has such a property, stays as it is."""
    if not body.startswith("{"):
        return body
    made = json.loads(body)
    return body if "large" in {name.lower() for name in made} else json.dumps({**made, "Large": True})


def _large(duration: float) -> list[float]:
    """Return when a large message is due: early enough that the run need not wait for them long."""
    last = 0.6 * duration if duration >= LARGE_FROM else 0.0
    return [at for number in range(int(last / LARGE_EVERY) + 1) if (at := 2 + LARGE_EVERY * number) <= last]


def _kind(source: str) -> str:
    """Return what sort of source it is: storage queues have no slash in their names."""
    kind, slash, _ = source.partition("/")
    return kind if slash else "queue"


def _can_be_made(app: App, source: str) -> bool:
    """Tell whether work can be made for a source.

    A route may have constraints that no made value fits. What is in the queue of an inbox, only the inbox can write.
    """
    return all(
        not function.ordered and (function.route is None or make_request(function, KEYS[0], 1))
        for function in app.of(source)
    )


def _keys(app: App, source: str) -> tuple[str, ...]:
    """Return the keys of a source: only one if all messages want the same lock anyway."""
    one_lock = all(
        function.guarded and not (function.scope or function.paths or function.once) for function in app.of(source)
    )
    return KEYS[:1] if one_lock else KEYS


def _spread(app: App, own: Mapping[str, Sequence[Outgoing]], duration: float) -> Iterator[tuple[float, int, Outgoing]]:
    """Spread the user's messages over the first two thirds of the run."""
    for source, messages in own.items():
        for number, each in enumerate(messages):
            at = number / len(messages) * duration * 2 / 3
            yield at, number, replace(each, key=each.key or _key_of(each.body, app.of(source)), own=True)


def _key_of(body: str, functions: Sequence[AppFunction]) -> str:
    """Find the value that scopes this message, for people to read. A body without it is not judged here."""
    for function in functions:
        if function.scope:
            with suppress(ScopeError):  # its host will say what is wrong with it
                return value_at(function.scope, body)
    return ""
