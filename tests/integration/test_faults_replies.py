"""Replies that get lost on any request of a cycle, and storage that refuses: B6, B7, B12, W-84 to W-86.

All scenarios of this file run at once (see ``tests/support/fault_world.py``).
"""

from __future__ import annotations

import os
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from simulator.proxy.actions import Answer, DropReply, DropRequest, Hang
from singleton import LockClient, StorageDenied, StorageUnavailable, current_hold
from tests.support.fault_world import OPTIONS, PERIOD, SLACK, World, run_all
from tests.support.recording_proxy import Truncate, on

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from simulator.azurite.server import Azurite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ONE_CALL = 5.0
"""Seconds after which a request without an answer is asked again."""


def took(act: Callable[[], Any]) -> float:
    start = time.monotonic()
    act()
    return time.monotonic() - start


def ids_asked_for(world: World) -> set[str | None]:
    return {request.proposed_lease_id for request in world.proxy.requests if request.operation == "acquire"}


def tokens_of(world: World, calls: int) -> list[int]:
    tokens: list[int] = []
    for _ in range(calls):
        world.call(lambda: tokens.append(current_hold().token or 0))
    return tokens


# --- replies that get lost ------------------------------------------------------------------------------------------


def an_acquire_whose_reply_is_lost_is_asked_for_again_by_the_same_id(world: World) -> None:
    world.works_again()
    world.proxy.forget()
    with world.proxy.fault(on("acquire"), DropReply(), uses=1):
        assert took(lambda: world.call(lambda: None)) < SLACK
    assert len(ids_asked_for(world)) == 1
    world.works_again()


def an_acquire_whose_reply_never_comes_is_asked_for_again_by_the_same_id(world: World) -> None:
    world.works_again()
    world.proxy.forget()
    with world.proxy.fault(on("acquire"), Hang(forward=True), uses=1):
        assert ONE_CALL <= took(lambda: world.call(lambda: None)) < ONE_CALL + SLACK
    assert len(ids_asked_for(world)) == 1


def an_acquire_whose_reply_is_cut_off_is_asked_for_again_by_the_same_id(world: World) -> None:
    world.works_again()
    world.proxy.forget()
    with world.proxy.fault(on("acquire"), Truncate(), uses=1):
        assert took(lambda: world.call(lambda: None)) < SLACK
    assert len(ids_asked_for(world)) == 1


def an_acquire_that_never_arrives_is_asked_for_again(world: World) -> None:
    with world.proxy.fault(on("acquire"), DropRequest(), uses=3):
        assert took(lambda: world.call(lambda: None)) < 2 * SLACK


def an_acquire_that_is_given_up_with_its_outcome_unknown_blocks_nobody(world: World) -> None:
    world.works_again()
    with world.proxy.fault(on("acquire"), Hang(forward=True)), pytest.raises(StorageUnavailable):
        world.call(pytest.fail, timeout=0.5)
    assert took(lambda: world.rival().result(PERIOD)) < ONE_CALL + SLACK


def a_stamp_whose_reply_is_lost_leaves_tokens_increasing(world: World) -> None:
    for action in (DropReply(), Truncate(), DropRequest(), Answer(500, "InternalError")):
        with world.proxy.fault(on("metadata"), action, uses=1):
            tokens = tokens_of(world, 3)
        assert tokens == sorted(set(tokens))


def a_stamp_that_hangs_gives_the_lease_back_and_is_tried_again(world: World) -> None:
    before = tokens_of(world, 1)
    with world.proxy.fault(on("metadata"), Hang(forward=True), uses=1):
        assert took(lambda: before.extend(tokens_of(world, 1))) < ONE_CALL + 2 * SLACK
    assert before == sorted(set(before))


def a_stamp_that_is_refused_leaves_no_lease_behind(world: World) -> None:
    world.rival().result(PERIOD)
    with world.proxy.fault(on("metadata"), Answer(403, "AuthorizationFailure")), pytest.raises(StorageDenied):
        world.call(pytest.fail, on_contention="skip")
    assert took(lambda: world.rival().result(PERIOD)) < SLACK


def a_release_whose_reply_is_lost_is_a_release(world: World) -> None:
    for action in (DropReply(), Truncate(), DropRequest(), Answer(503, "ServerBusy")):
        with world.proxy.fault(on("release"), action, uses=1):
            assert took(lambda: world.call(lambda: None)) < SLACK
        assert took(lambda: world.rival().result(PERIOD)) < SLACK


def a_release_that_hangs_fails_no_invocation_and_lapses(world: World) -> None:
    """W-86 fails it; ours does not: the body is done, and a retry would do it twice."""
    with world.proxy.fault(on("release"), Hang()):
        assert took(lambda: world.call(lambda: None)) < ONE_CALL + SLACK
    assert took(lambda: world.rival().result(2 * PERIOD)) < PERIOD + SLACK


def a_release_that_is_denied_fails_no_invocation_either(world: World) -> None:
    with world.proxy.fault(on("release"), Answer(403, "AuthorizationFailure")):
        assert took(lambda: world.call(lambda: None)) < SLACK


def creations_whose_replies_are_lost_end_in_one_lock(world: World) -> None:
    client = world.client(OPTIONS.replace(container=f"test-{os.urandom(8).hex()}"))
    with (
        world.proxy.fault(on("put"), DropReply(), uses=1),
        world.proxy.fault(on("container put"), DropReply(), uses=1),
        client.lock("reports", timeout=10),
    ):
        pass


# --- storage that refuses is no contention ----------------------------------------------------------------------------


def storage_that_refuses_is_never_a_skip(world: World) -> None:
    for status, code, kind in (
        (403, "AuthenticationFailed", StorageDenied),
        (403, "AuthorizationPermissionMismatch", StorageDenied),
        (401, "NoAuthenticationInformation", StorageDenied),
    ):
        with world.proxy.fault(on("acquire"), Answer(status, code)), pytest.raises(kind) as caught:
            world.call(pytest.fail, on_contention="skip")
        assert f"{status} {code}" in str(caught.value)
        assert "check the connection's key, SAS or role assignments" in str(caught.value)


def storage_that_does_not_answer_is_never_a_skip(world: World) -> None:
    for action in (Answer(500, "InternalError"), Answer(503, "ServerBusy"), Answer(429, ""), DropRequest(), Hang()):
        with world.proxy.fault(on("acquire"), action), pytest.raises(StorageUnavailable):
            world.call(pytest.fail, on_contention="skip", timeout=1)


def one_attempt_at_storage_that_hangs_ends_in_ten_seconds(world: World) -> None:
    def attempt() -> None:
        with pytest.raises(StorageUnavailable):
            world.call(pytest.fail, on_contention="skip")

    with world.proxy.fault(on("acquire"), Hang()):
        assert took(attempt) < 10 + ONE_CALL + SLACK


def storage_that_is_busy_for_some_seconds_only_delays(world: World) -> None:
    world.proxy.add(on("acquire"), Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=3)
    assert world.call(lambda: "done") == "done"
    assert world.proxy.count(on("acquire")) >= 4


def a_wrong_key_is_said_to_be_one_and_is_not_shown(world: World) -> None:
    wrong = "d3Jvbmcta2V5LXdyb25nLWtleQ=="
    key = world.through.partition("AccountKey=")[2].partition(";")[0]
    os.environ[world._setting] = world.through.replace(key, wrong)
    for on_contention in ("skip", "raise", "wait"):
        with pytest.raises(StorageDenied, match="check the connection's key") as caught:
            world.call(pytest.fail, on_contention=on_contention)
        text = "".join(traceback.format_exception(caught.value))
        assert wrong not in text
        assert caught.value.status == 403
    os.environ[world._setting] = world.through


def nobody_at_the_address_is_unavailable(world: World) -> None:
    nowhere = world.through.replace(f":{world.proxy.port}/", ":9/")
    with pytest.raises(StorageUnavailable), LockClient(nowhere, options=OPTIONS).lock("reports", timeout=1):
        pytest.fail("it was entered")


SCENARIOS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__annotations__", {}) == {"world": "World", "return": "None"}
]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, azurite: Azurite, tmp_path_factory: Any) -> dict[str, Future[None]]:
    chosen = [item.callspec.params["scenario"] for item in request.session.items if item.module is request.module]  # type: ignore[attr-defined]
    return run_all(chosen, azurite, tmp_path_factory.mktemp("app"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_that(scenario: Any, outcomes: dict[str, Future[None]]) -> None:
    outcomes[scenario.__name__].result()
