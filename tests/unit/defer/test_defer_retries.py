"""``on_contention="defer"`` with ``@app.retry``: each delivery has several tries, and fails once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.deferrals import LOCK, Queue, TooBad, call, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.lock_thread import LockThread

pytestmark = pytest.mark.usefixtures("thread")
any_body = pytest.mark.parametrize(
    "body", [b"bad", b'{"Id": "k"}', b'{"DequeueCount": 90}', b'{"Id": 1, "DequeueCount": 0}']
)
MOST = 5
"""The default maxDequeueCount."""


def tried_in_vain(function: Callable[..., Any], message: Any, times: int, *, retries: int = 2) -> None:
    for tried in range(times):
        with pytest.raises(TooBad):
            call(function, message, tried=tried, retries=retries)


def contended(thread: LockThread, queue: Queue, function: Callable[..., Any], message: Any, **tries: int) -> None:
    """Let a try meet a busy lock: it ends as a success, by which the host deletes what it has."""
    thread.taken_by_another_process(LOCK)
    assert call(function, message, **tries) is None
    thread.given_back_by_the_other(LOCK)
    queue.ended_by_the_host()


@any_body
@pytest.mark.parametrize("retries", [2, -1], ids=["two", "without end"])
def test_a_delivery_that_failed_before_it_met_a_busy_lock_counts_and_the_last_one_is_poison_instead_of_put_back(
    thread: LockThread, queue: Queue, body: bytes, retries: int
) -> None:
    function, message = failing("sync"), queue.message(body)
    for _ in range(MOST - 1):
        tried_in_vain(function, message, 1, retries=retries)
        contended(thread, queue, function, message, tried=1, retries=retries)
        message = queue.delivered()
    assert "poisoned" not in thread.kinds()
    tried_in_vain(function, message, 1, retries=retries)
    contended(thread, queue, function, message, tried=1, retries=retries)
    assert (queue.left(), [each for _, each, _ in queue.left("orders-poison")]) == ([], [body])
    assert (thread.kinds().count("deferred"), thread.kinds().count("poisoned")) == (MOST - 1, 1)
    assert [name for name in thread.memory.names() if name.startswith("deferred")] == []


@any_body
def test_the_last_delivery_has_all_its_tries_before_its_message_is_poison(
    thread: LockThread, queue: Queue, body: bytes
) -> None:
    function, message = failing("sync"), queue.message(body)
    for _ in range(MOST - 1):
        tried_in_vain(function, message, 3)
        contended(thread, queue, function, queue.delivered())
        message = queue.delivered()
    tried_in_vain(function, message, 2)
    assert "poisoned" not in thread.kinds()
    try:
        call(function, message, tried=2, retries=2)
    except TooBad:
        pass
    else:
        assert queue.ended_by_the_host()  # of a message whose id its body hides
    assert (queue.left(), [each for _, each, _ in queue.left("orders-poison")]) == ([], [body])
