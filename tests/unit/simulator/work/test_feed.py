"""Messages: bodies from which every function can take its scope, keys that contend, and the user's own files."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.work.apps import App, AppFunction
from simulator.work.feed import UNDER_WAY, Feeder, make_body
from simulator.work.own import Outgoing, read_messages
from simulator.work.request_specs import KEYS, make_request
from simulator.work.scenario import ScenarioError
from singleton.scopes.template import ScopeTemplate, value_at


def app(*functions: AppFunction) -> App:
    return App(functions=functions or (orders(),))


def orders(scope: str | None = "Id", queue: str = "orders", **values: Any) -> AppFunction:
    return AppFunction(name=f"ship_{queue}", trigger="queue", queue=queue, guarded=True, scope=scope, **values)


names = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=8).filter(str.strip)


@given(st.lists(names, min_size=1, max_size=4), st.sampled_from(KEYS))
def test_a_body_has_its_scope_where_the_path_looks_for_it(path: list[str], key: str) -> None:
    scope = ":".join(path)
    assert value_at(scope, make_body([orders(scope)], key, 1)) == key


def test_a_body_has_what_the_placeholders_of_a_scope_id_name() -> None:
    template = ScopeTemplate("%REGION%-{Zone}-{Order.Customer}-{DequeueCount}")
    body = json.loads(make_body([orders(None, paths=template.paths)], "bravo", 3))
    assert body == {"Zone": "bravo", "Order": {"Customer": "bravo"}, "Number": 3}


def test_a_scope_id_of_the_whole_text_gets_the_key_as_text() -> None:
    assert make_body([orders(None, paths=("QueueTrigger",))], "alpha", 1) == "alpha"


def test_functions_of_one_queue_share_its_bodies() -> None:
    body = json.loads(make_body([orders("Tenant"), orders("Order:Id")], "delta", 1))
    assert body == {"Tenant": "delta", "Order": {"Id": "delta"}, "Number": 1}


def test_paths_that_contradict_one_another_still_make_a_body() -> None:
    assert json.loads(make_body([orders("A"), orders("A:B")], "x", 1))["A"] == "x"


def test_a_function_without_a_scope_gets_a_body_too() -> None:
    assert json.loads(make_body([orders(None)], "alpha", 9)) == {"Id": "alpha", "Number": 9}


def play(
    feeder: Feeder, seconds: float, *, done_after: float = 0.6, step: float = 0.05
) -> list[tuple[float, Outgoing]]:
    """Run a feeder against a world in which each message takes its time."""
    sent: list[tuple[float, Outgoing]] = []
    for tick in range(int(seconds / step)):
        now = tick * step
        under_way = Counter((message.queue, message.key) for at, message in sent if at + done_after > now)
        assert max(under_way.values(), default=0) <= UNDER_WAY
        sent += [(now, message) for message in feeder.due(now, under_way)]
    return sent


def test_messages_come_steadily_with_all_keys_and_stop_in_time() -> None:
    feeder = Feeder(app(), seed=3, duration=20)
    sent = play(feeder, 30)
    assert 60 <= len(sent) <= 90
    assert {message.key for _, message in sent} == set(KEYS)
    assert {message.key for _, message in sent[:4]} == set(KEYS)
    assert max(at for at, _ in sent) < 20
    assert max(later - earlier for (earlier, _), (later, _) in itertools.pairwise(sent)) < 1
    assert feeder.finished(20)
    assert not feeder.finished(19)


def test_keys_differ_also_by_the_case_of_letters_alone_and_by_what_follows_the_same_letters() -> None:
    assert len({key.lower() for key in KEYS}) < len(KEYS)
    assert len({key.lower()[:5] for key in KEYS}) < len({key.lower() for key in KEYS})


def test_keys_repeat_so_that_messages_contend() -> None:
    keys = [message.key for _, message in play(Feeder(app(), seed=1, duration=60), 60)]
    repeats = sum(first == second for first, second in itertools.pairwise(keys))
    assert repeats > len(keys) * 0.3


def test_a_key_that_is_stuck_is_sent_no_more_of() -> None:
    feeder = Feeder(app(), seed=1, duration=30)
    stuck = {("orders", "alpha"): UNDER_WAY}
    keys = {message.key for tick in range(600) for message in feeder.due(tick / 20, stuck)}
    assert keys == set(KEYS) - {"alpha"}
    assert feeder.due(29.9, {("orders", key): UNDER_WAY for key in KEYS}) == []


def test_the_same_seed_makes_the_same_messages_and_another_one_others() -> None:
    def bodies(seed: int) -> list[tuple[float, Outgoing]]:
        return play(Feeder(app(), seed=seed, duration=10), 10)

    assert bodies(4) == bodies(4)
    assert bodies(4) != bodies(5)


def test_several_queues_share_the_pace() -> None:
    queues = [orders(queue=f"q{number}") for number in range(4)]
    sent = play(Feeder(app(*queues), seed=2, duration=20), 20)
    per_queue = Counter(message.queue for _, message in sent)
    assert len(per_queue) == 4
    assert max(per_queue.values()) < 60


def test_messages_that_all_want_one_lock_are_not_piled_up() -> None:
    feeder = Feeder(app(orders(None)), seed=1, duration=30)
    sent = [message for tick in range(600) for message in feeder.due(tick / 20, {("orders", "alpha"): UNDER_WAY})]
    assert sent == []
    assert {message.key for _, message in play(Feeder(app(orders(None)), seed=1, duration=10), 10)} == {"alpha"}


def test_work_can_go_on_for_longer_than_planned() -> None:
    feeder = Feeder(app(), seed=1, duration=2)
    assert feeder.due(3, {}) == []
    feeder.extend(5)
    assert feeder.due(3, {}) != []
    assert not feeder.finished(4)
    assert feeder.finished(5)


def test_an_app_without_queues_is_fed_nothing() -> None:
    feeder = Feeder(app(AppFunction(name="tick", trigger="timer")), seed=1, duration=10)
    assert feeder.finished(0)
    assert feeder.due(1, {}) == []


def test_the_users_own_messages_are_each_sent_once_early_enough() -> None:
    own = {"orders": [Outgoing("orders", json.dumps({"Id": number}), "") for number in range(20)]}
    feeder = Feeder(app(), seed=1, duration=30, own=own)
    sent = play(feeder, 30)
    assert sorted(message.body for _, message in sent) == sorted(message.body for message in own["orders"])
    assert {message.key for _, message in sent} == {str(number) for number in range(20)}
    assert max(at for at, _ in sent) <= 20.1
    assert feeder.finished(20.1)


def test_own_messages_of_several_queues_need_no_order() -> None:
    both = app(orders(queue="a1"), orders(queue="b1"))
    bodies = {"a1": ["{}", "nonsense"], "b1": ["{}"]}
    own = {queue: [Outgoing(queue, body, "") for body in each] for queue, each in bodies.items()}
    feeder = Feeder(both, seed=1, duration=3, own=own)
    assert {(message.queue, message.key) for message in feeder.due(3, {})} == {("a1", ""), ("b1", "")}


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "messages.jsonl"
    path.write_text(text)
    return path


def test_lines_of_messages_are_read(tmp_path: Path) -> None:
    path = file(tmp_path, '{"queue": "orders", "body": {"Id": 7}}\n\n{"queue": "orders", "body": "plain text"}\n')
    assert read_messages(path, app()) == {"orders": ['{"Id": 7}', "plain text"]}


def test_one_line_is_enough(tmp_path: Path) -> None:
    assert read_messages(file(tmp_path, '{"queue": "orders", "body": null}'), app()) == {"orders": ["null"]}


def test_an_object_of_lists_is_read(tmp_path: Path) -> None:
    path = file(tmp_path, '{"orders": [{"Id": 1},\n {"Id": 2}]}')
    assert read_messages(path, app()) == {"orders": ['{"Id": 1}', '{"Id": 2}']}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["it is empty"]),
        ('{"queue": "orders", "body": 1}\n{nonsense\n', ["line 2", "not JSON"]),
        ('{"queue": "orders", "body": 1}\n[1]\n', ["line 2", "no object with a queue and a body"]),
        ('{"queue": "order", "body": 1}', ["line 1", "'order'", "'orders'", "did you mean 'orders'?"]),
        ('{"queue": 7, "body": 1}', ["line 1", "no queue 7"]),
        ('{"orders": 5}', ["'orders' must have a list of bodies"]),
        ('{"shipments": [1]}', ["message 1 of 'shipments'", "no queue 'shipments'"]),
        (json.dumps({"queue": "orders", "body": "x" * 60_000}), ["line 1", "60,000 bytes"]),
        (r'{"queue": "orders", "body": "\ud800"}', ["line 1", "half a character"]),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_place(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_messages(file(tmp_path, text), app())
    for word in ("--messages", *words):
        assert word in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        read_messages(tmp_path / "missing", app())
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        read_messages(tmp_path / "binary", app())


def test_messages_for_an_app_without_queues_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="listens to no queue"):
        read_messages(file(tmp_path, '{"queue": "orders", "body": 1}'), app(AppFunction(name="tick", trigger="timer")))


@given(st.binary(max_size=200))
def test_no_file_makes_anything_but_messages_or_one_clear_error(content: bytes) -> None:
    path = Path(f"/tmp/messages-{random.getrandbits(64):x}")
    path.write_bytes(content)
    try:
        read_messages(path, app())
    except ScenarioError as error:
        assert "\n" not in str(error)  # noqa: PT017
    finally:
        path.unlink()


def test_now_and_then_a_message_is_large_if_faults_are_to_meet_long_bodies() -> None:
    def found(duration: float, functions: App | None = None, *, large: bool = True) -> list[float]:
        sent = play(Feeder(functions or app(), seed=1, duration=duration, large=large), duration)
        return [at for at, message in sent if '"Large": true' in message.body]

    assert [at // 10 for at in found(60)] == [0, 1, 3]
    assert all(2 <= at % 15 < 5 for at in found(60))
    assert found(15) == found(60, large=False) == []
    assert found(60, app(orders(None, paths=("QueueTrigger",)))) == []  # the body is the key
    assert found(60, app(orders("large"))) == []


def test_nothing_is_made_up_for_the_queue_of_an_inbox() -> None:
    feeder = Feeder(app(orders(None, "bells", ordered=True), orders()), seed=3, duration=20)
    assert {message.queue for _, message in play(feeder, 10)} == {"orders"}
    assert Feeder(app(orders(None, "bells", ordered=True)), seed=3, duration=20).finished(0)


def test_the_key_of_once_changes_now_and_then_so_that_operations_are_repeated_and_new_ones_begin() -> None:
    charges = AppFunction(name="charge", trigger="queue", queue="charges", once=("Order.Id",))
    keys = [
        json.loads(message.body)["Order"]["Id"] for _, message in play(Feeder(app(charges), seed=1, duration=20), 20)
    ]
    assert len(keys) > 2 * len(set(keys)) > 4 * len(KEYS)


def test_a_request_has_the_key_of_once_where_its_template_looks_for_it() -> None:
    pay = AppFunction(
        name="pay", trigger="http", route="pay", methods=("POST",), once=("headers.Idempotency-Key", "Order.Id")
    )
    request = make_request(pay, "alpha", 25)
    assert request is not None
    assert request.headers["Idempotency-Key"] == "alpha-2"
    assert json.loads(request.body)["Order"] == {"Id": "alpha-2"}
