"""The messages of a run: made for the scope of each function, or the user's own; and when to send them.

Made messages carry one of a few keys each, so that they contend for the same locks:

    scope="Order:Customer"         →  {"Order": {"Customer": "alpha"}, "Number": 17}
    scope_id="{Region}-{Zone.Id}"  →  {"Region": "bravo", "Zone": {"Id": "bravo"}, "Number": 18}

They are sent steadily, with repeats, and no faster than they are processed: of each key only a few are under way at a
time, so that the run can end.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.work.scenario import ScenarioError
from singleton.base.errors import ScopeError
from singleton.base.words import did_you_mean
from singleton.scopes.scope import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from simulator.work.apps import App, AppFunction

# One lock for two of them is a finding: they differ by the case of a letter, or by what comes after the same letters.
KEYS: Final = ("alpha", "bravo", "Bravo", "bravo-2")
PER_SECOND: Final = 8.0  # over all queues together
QUEUE_PER_SECOND: Final = 4.0
UNDER_WAY: Final = 4  # of one key
REPEAT: Final = 0.4  # how often a message has the key of the one before it
LARGEST: Final = 48 * 1024  # bytes of a body: 64 KiB in base64

# Names in a scope id that the host knows of every message (H-47); "Id" is not among them, as a body's own Id wins.
_KNOWN: Final = frozenset(
    {"queuetrigger", "dequeuecount", "expirationtime", "insertiontime", "nextvisibletime", "popreceipt"}
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to send."""

    queue: str
    body: str
    key: str


class Feeder:
    """Decides what to send when; the caller sends it, and says how much of each key is under way."""

    def __init__(self, app: App, *, seed: int, duration: float, own: Mapping[str, Sequence[str]] | None = None) -> None:
        """Plan a run.

        Args:
            app: what listens.
            seed: of keys and pauses.
            duration: seconds during which messages are sent.
            own: the user's messages by queue: each of them is sent once, and none is made.
        """
        self._app = app
        self._random = random.Random(f"feed {seed}")
        self._duration = duration
        self._rate = min(QUEUE_PER_SECOND, PER_SECOND / max(len(app.queues), 1))
        self._last: dict[str, str] = {}
        self._numbers = dict.fromkeys(app.queues, 0)
        self._keys = {queue: _keys(app, queue) for queue in app.queues}
        self._due = {queue: self._random.uniform(0, 1 / self._rate) for queue in app.queues}
        self._own = None if own is None else sorted(_spread(app, own, duration), key=lambda entry: entry[:2])

    def due(self, now: float, under_way: Mapping[tuple[str, str], int]) -> list[Outgoing]:
        """Return what is to be sent by `now`, in seconds since the run's start.

        Args:
            now: the time.
            under_way: how many messages of each queue and key were sent and are not done yet.
        """
        if self._own is not None:
            ready = [message for at, _, message in self._own if at <= now]
            self._own = [entry for entry in self._own if entry[0] > now]
            return ready
        messages = []
        for queue, at in self._due.items():
            if at <= now < self._duration:
                self._due[queue] = now + self._random.uniform(0.5, 1.5) / self._rate
                key = self._key(queue, under_way)
                if key is not None:
                    self._numbers[queue] += 1
                    messages.append(self._message(queue, key))
        return messages

    def extend(self, until: float) -> None:
        """Go on to make messages for longer than planned."""
        self._duration = max(self._duration, until)

    def finished(self, now: float) -> bool:
        """Tell whether nothing more will be sent."""
        return not self._own if self._own is not None else now >= self._duration or not self._app.queues

    def _key(self, queue: str, under_way: Mapping[tuple[str, str], int]) -> str | None:
        """Choose a key: first each of them once, then any, often the same again."""
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

    def _message(self, queue: str, key: str) -> Outgoing:
        listeners = [function for function in self._app.functions if function.queue == queue]
        return Outgoing(queue, make_body(listeners, key, self._numbers[queue]), key)


def _keys(app: App, queue: str) -> tuple[str, ...]:
    """Return the keys of a queue: only one if all messages want the same lock anyway."""
    listeners = [function for function in app.functions if function.queue == queue]
    one_lock = all(function.guarded and not (function.scope or function.paths) for function in listeners)
    return KEYS[:1] if one_lock else KEYS


def make_body(functions: Sequence[AppFunction], key: str, number: int) -> str:
    """Make a body from which each of these functions can take its scope; the scope's value is `key`."""
    body: dict[str, Any] = {}
    for function in functions:
        if function.scope:
            _put(body, function.scope.split(":"), key)
        for path in function.paths:
            first, *rest = path.split(".")
            if first.lower() == "queuetrigger":
                return key  # the lock's name is the body itself
            if first.lower() not in _KNOWN:
                _put(body, [first, *rest], key)
    if not body:
        body["Id"] = key
    if "number" not in {name.lower() for name in body}:
        body["Number"] = number
    return json.dumps(body)


def _put(body: dict[str, Any], path: Sequence[str], value: str) -> None:
    *parents, last = path
    for name in parents:
        inner = body.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # one path runs through the value of another: no body can serve both
        body = inner
    body.setdefault(last, value)


def read_messages(path: Path, app: App) -> dict[str, list[str]]:
    """Read the user's own messages, by queue.

    The file is either JSON lines, ``{"queue": "orders", "body": {"Id": 7}}`` each, or one JSON object that has for each
    queue the list of its bodies. A body that is a text is sent as it is, any other as JSON.

    Raises:
        ScenarioError: the file can't be read, or one of its messages can't be sent; the message says where.
    """
    found: dict[str, list[str]] = {}
    for where, queue, body in check_messages(path):
        found.setdefault(_queue(queue, app, where), []).append(body)
    return found


def check_messages(path: Path) -> list[tuple[str, object, str]]:
    """Read a file of messages without looking at any app: the place, the queue and the body of each.

    Raises:
        ScenarioError: it can't be read, has no messages, or one of them can't be sent.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"--messages {path}: it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ScenarioError(f"--messages {path}: {error.strerror or error}") from error
    found = [(where, queue, _body(body, where)) for where, queue, body in _entries(text, f"--messages {path}")]
    if not found:
        raise ScenarioError(f'--messages {path}: it is empty; write a line {{"queue": "NAME", "body": …}} a message')
    return found


def _entries(text: str, source: str) -> Iterator[tuple[str, object, object]]:
    """Yield the place of each message in the file, its queue and its body."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and not {"queue", "body"} <= whole.keys():
        for queue, bodies in whole.items():
            if not isinstance(bodies, list):
                raise ScenarioError(f"{source}: {queue!r} must have a list of bodies: {{{json.dumps(queue)}: [ … ]}}")
            for number, body in enumerate(bodies, start=1):
                yield f"{source}: message {number} of {queue!r}", queue, body
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ScenarioError(f"{where}: not JSON ({error}); {_FORMS}") from error
        if not isinstance(entry, dict) or not {"queue", "body"} <= entry.keys():
            raise ScenarioError(f"{where}: no object with a queue and a body; {_FORMS}")
        yield where, entry["queue"], entry["body"]


_FORMS: Final = 'write one {"queue": "NAME", "body": …} a line, or one object {"NAME": [ … ]} in all'


def _queue(queue: object, app: App, where: str) -> str:
    if isinstance(queue, str) and queue in app.queues:
        return queue
    if not app.queues:
        raise ScenarioError(f"{where}: the app listens to no queue")
    known = ", ".join(map(repr, app.queues))
    raise ScenarioError(
        f"{where}: the app listens to no queue {queue!r}, but to {known}{did_you_mean(str(queue), app.queues)}"
    )


def _body(body: object, where: str) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ScenarioError(f"{where}: its body has half a character (a lone surrogate)") from error
    if size > LARGEST:
        raise ScenarioError(f"{where}: its body has {size:,} bytes; a queue takes {LARGEST:,} at most")
    return text


def _spread(app: App, own: Mapping[str, Sequence[str]], duration: float) -> Iterator[tuple[float, int, Outgoing]]:
    """Spread the user's messages over the first two thirds of the run."""
    for queue, bodies in own.items():
        for number, body in enumerate(bodies):
            key = _key_of(body, [function for function in app.functions if function.queue == queue])
            yield number / len(bodies) * duration * 2 / 3, number, Outgoing(queue, body, key)


def _key_of(body: str, functions: Sequence[AppFunction]) -> str:
    """Find the value that scopes this message, for people to read. A body without it is not judged here."""
    for function in functions:
        if function.scope:
            with suppress(ScopeError):  # its host will say what is wrong with it
                return value_at(function.scope, body)
    return ""
