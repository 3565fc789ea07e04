"""The broker's rule on a driven clock: whatever receivers do, a message is in one hand at a time, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.bus import Broker, Entity, Item

LOCK = 20.0


class Bench:
    """A broker with one entity, and a clock that the test drives."""

    def __init__(self, *, most: int = 10, sessions: bool = False) -> None:
        self.now = 0.0
        self.dead: list[str] = []
        self.broker = Broker(lambda: self.now, lambda item: self.dead.append(item.id))
        self.broker.open(Entity(name="q", lock=LOCK, most=most, sessions=sessions))

    def send(self, *names: str, **metadata: Any) -> None:
        for name in names:
            self.broker.send("q", "{}", metadata, name)

    def receive(self) -> Item:
        item = self.broker.receive("q")
        assert item is not None
        return item


def test_a_message_is_received_in_order_locked_and_gone_when_it_is_completed() -> None:
    bench = Bench()
    bench.send("a", "b")
    first, second = bench.receive(), bench.receive()
    assert (first.id, second.id, first.count) == ("a", "b", 1)
    assert bench.broker.receive("q") is None
    assert bench.broker.left("q") == ([], 2)
    assert bench.broker.complete(first.token)
    assert not bench.broker.complete(first.token)
    assert bench.broker.waiting() == 1


def test_the_message_of_a_receiver_that_died_comes_back_when_its_lock_is_over_and_counts() -> None:
    bench = Bench()
    bench.send("a")
    token = bench.receive().token
    bench.now = LOCK - 0.001
    assert bench.broker.receive("q") is None
    bench.now = LOCK
    again = bench.receive()
    assert (again.id, again.count) == ("a", 2)
    assert not bench.broker.complete(token)  # its first receiver comes too late
    assert not bench.broker.renew(token)
    assert bench.broker.abandon(token) == "gone"


def test_a_lock_that_is_renewed_goes_on_and_does_not_count() -> None:
    bench = Bench()
    bench.send("a")
    item = bench.receive()
    for _ in range(5):
        bench.now += LOCK / 2
        assert bench.broker.renew(item.token)
    assert bench.broker.receive("q") is None
    assert bench.broker.complete(item.token)
    assert item.count == 1


def test_an_abandoned_message_comes_back_at_once_in_its_old_place() -> None:
    bench = Bench()
    bench.send("a", "b")
    bench.broker.abandon(bench.receive().token)
    assert (bench.receive().id, bench.receive().id) == ("a", "b")


@pytest.mark.parametrize("expires", [False, True])
def test_the_last_delivery_that_fails_is_dead_lettered(*, expires: bool) -> None:
    bench = Bench(most=3)
    bench.send("a")
    for number in range(1, 4):
        item = bench.receive()
        assert item.count == number
        if expires:
            bench.now += LOCK
        else:
            bench.broker.abandon(item.token)
    assert bench.broker.receive("q") is None
    assert bench.broker.dead("q") == ["a"]
    assert bench.broker.left("q") == ([], 0)
    assert bench.dead == (["a"] if expires else [])  # of the others their receiver knows


def test_of_a_session_one_message_is_out_at_a_time_in_order() -> None:
    bench = Bench(sessions=True)
    bench.send("a1", "a2", SessionId="a")
    bench.send("b1", SessionId="b")
    first = bench.receive()
    assert (first.id, bench.receive().id) == ("a1", "b1")
    assert bench.broker.receive("q") is None
    bench.broker.abandon(first.token)
    assert bench.receive().id == "a1"
    bench.now += LOCK
    again = bench.receive()
    assert again.id == "a1"
    bench.broker.complete(again.token)
    assert bench.receive().id == "a2"
    assert bench.receive().id == "b1"


def test_the_next_expiry_is_that_of_the_oldest_lock() -> None:
    bench = Bench()
    assert bench.broker.next_expiry() is None
    bench.send("a", "b")
    bench.receive()
    bench.now = 5.0
    bench.receive()
    assert bench.broker.next_expiry() == LOCK


actions = st.lists(
    st.one_of(
        st.sampled_from(["send", "receive", "complete", "abandon", "renew"]),
        st.floats(0.1, LOCK * 1.2, allow_nan=False),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(actions, st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False))
def test_no_message_is_lost_or_in_two_hands_or_delivered_too_often(
    steps: list[Any],
    most: int,
    sessions: bool,
    random: Any,
) -> None:
    bench = Bench(most=most, sessions=sessions)
    sent: list[str] = []
    done: list[str] = []
    out: dict[str, tuple[str, str, float]] = {}  # by token: the message, its session, and until when it is locked
    deliveries: dict[str, int] = {}
    for step in steps:
        if isinstance(step, float):
            bench.now += step
        elif step == "send":
            sent.append(f"m{len(sent)}")
            bench.send(sent[-1], SessionId=random.choice("ab"))
        elif step == "receive":
            item = bench.broker.receive("q")
            if item is None:
                continue
            held = [(name, session) for name, session, until in out.values() if until > bench.now]
            assert item.id not in [name for name, _ in held]
            assert item.id not in done
            assert not sessions or item.session not in [session for _, session in held]
            deliveries[item.id] = deliveries.get(item.id, 0) + 1
            assert item.count == deliveries[item.id] <= most
            out[item.token] = (item.id, item.session, bench.now + LOCK)
        elif out:
            token = random.choice(sorted(out))
            name, session, until = out[token]
            valid = until > bench.now
            if step == "renew":
                assert bench.broker.renew(token) is valid
                out[token] = (name, session, bench.now + LOCK if valid else until)
            elif step == "complete":
                assert bench.broker.complete(token) is valid
                done += [name] if valid else []
                del out[token]
            else:
                assert (bench.broker.abandon(token) != "gone") is valid
                del out[token]
    bench.now += LOCK
    ready, invisible = bench.broker.left("q")
    assert invisible == 0
    assert sorted([*ready, *done, *bench.broker.dead("q")]) == sorted(sent)
    assert all(deliveries[name] == most for name in bench.broker.dead("q"))
