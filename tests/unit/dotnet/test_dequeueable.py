"""layout="dequeueable": the value is the blob's name (D-18); attempts and delays are Dequeueable's (D-29 to D-31)."""

from __future__ import annotations

import asyncio
import random
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import ConfigurationError, LockNotAcquired, ScopeError, StorageDenied, StorageUnavailable
from singleton.dotnet.attempts import delays
from singleton.dotnet.dequeueable import DequeueableLayout, DequeueableOptions
from singleton.functions.acquirers import acquire_by_attempts
from singleton.locking.phase import Timing
from singleton.runtime.address import Address
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from tests.support.network import Network, answered
from tests.support.world import foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from singleton.base.hold import Hold

SHORT = DequeueableOptions(shortest=1, longest=4, retries=3)
NAME = "tenant-42"


class Dice(random.Random):
    """A random source that always throws the same."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part = part

    def random(self) -> float:
        return self.part


@pytest.mark.parametrize(
    ("shortest", "longest", "thrown", "expected"),
    [
        # the first is the minimum; then minimum + random factor * 2^(n-1) * minimum, at most the maximum
        (10, 120, 0.5, [10, 20, 30, 50, 90, 120, 120]),
        (10, 120, 0.0, [10, 18, 26, 42, 74, 120, 120]),  # the factor is 0.8
        (10, 120, 0.9999999, [10, 22, 34, 58, 106, 120, 120]),  # almost 1.2
        (1, 4, 0.5, [1, 2, 3, 4, 4, 4]),
        (1, 2, 0.5, [1, 2, 2, 2]),
        (1, 2, 0.0, [1, 1.8, 2, 2]),
        (0, 120, 0.5, [0, 0, 0, 0, 0]),
        (119, 120, 0.5, [119, 120, 120]),
    ],
)
def test_delays_grow_from_the_shortest_to_the_longest(
    shortest: int, longest: int, thrown: float, expected: list[float]
) -> None:
    options = DequeueableOptions(shortest=shortest, longest=longest)
    assert list(islice(delays(DequeueableLayout(options).attempts, Dice(thrown)), len(expected))) == pytest.approx(
        expected, abs=1e-4
    )


def test_delays_are_at_random_within_a_fifth() -> None:
    options = DequeueableOptions(shortest=10, longest=1000)
    runs = [list(islice(delays(DequeueableLayout(options).attempts, random.Random(seed)), 6)) for seed in range(500)]
    for nth in range(1, 6):
        factors = [(run[nth] - 10) / (10 * 2 ** (nth - 1)) for run in runs]
        assert 0.8 <= min(factors) < 0.82
        assert 1.18 < max(factors) < 1.2
        assert 0.98 < sum(factors) / len(factors) < 1.02


def test_delays_never_shrink_and_never_pass_the_longest() -> None:
    for seed in range(100):
        run = list(islice(delays(DequeueableLayout(DequeueableOptions()).attempts, random.Random(seed)), 2000))
        assert all(earlier <= later for earlier, later in pairwise(run))
        assert run[-1] == max(run) == 120


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "419", "True", "a b", "A/b", "a//b", "é😀", "%2e%2e/x", "?#+", "x" * 1024])
def test_the_value_is_the_name_of_the_blob(value: str) -> None:
    """D-18: whatever host, function and level ask."""
    layout = DequeueableLayout(SHORT)
    assert layout.lock("hid", "ship", [value]) == value
    assert layout.lock("other", "bill", [value], "host") == value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\\b", "backslash"),
        ("a/", "may not end in a slash"),
        ("/a", "may not begin with a slash"),
        ("a.", "dot"),
        ("a/../b", "dot"),
        (".", "dot"),
        ("x" * 1025, "has 1025 characters"),
        ("/".join("a" * 255), "255 segments"),
        ("a\nb", "control character"),
        ("\ud800", "surrogate"),
        ("locks/hid/ship", "where the other layouts keep their locks"),
    ],
)
def test_a_value_that_can_not_be_told_from_another_is_refused(value: str, why: str) -> None:
    with pytest.raises(ScopeError, match=r"layout='dequeueable'") as caught:
        DequeueableLayout(SHORT).lock("hid", "ship", [value])
    assert why in str(caught.value)
    assert caught.value.reason == "name"


def test_there_are_no_listeners_and_no_locks_without_a_scope() -> None:
    with pytest.raises(ConfigurationError, match="one scope's value around each invocation"):
        DequeueableLayout(SHORT).lock("hid", "ship", ["1"], listener=True)
    with pytest.raises(ConfigurationError, match="one scope's value around each invocation"):
        DequeueableLayout(SHORT).lock("hid", "ship", [])


# --- attempts ---------------------------------------------------------------------------------------------------------


class Host:
    """A process whose function is guarded in this layout."""

    def __init__(self, options: DequeueableOptions = SHORT) -> None:
        self.network = Network()
        self.layout = DequeueableLayout(options)
        self.registry = Registry(lambda _: self.network, Dice(0.5))
        place = LockContainer(StorageAccount("UseDevelopmentStorage=true"), "webjobshost")
        self.address = Address(place, NAME, Timing(period=60, poll_min=0.1, poll_max=5))

    async def take(self, timeout: float | None, owner: str) -> Hold:
        attempts = self.layout.attempts
        return await acquire_by_attempts(self.registry, self.address, attempts, timeout=timeout, owner=owner)

    async def acquire(self, timeout: float | None = None) -> None:
        hold = await self.take(timeout, "inv-1")
        await self.registry.release(hold)

    def attempts(self) -> list[float]:
        return [round(request.sent, 1) for request in self.network.requests if request.call == "acquire"]


@virtual
async def test_it_tries_once_more_than_there_are_retries_and_does_not_sleep_afterwards() -> None:
    """D-29, D-30."""
    host = Host()
    await occupy(host.network.service, NAME)
    with pytest.raises(LockNotAcquired) as caught:
        await host.acquire()
    assert len(host.attempts()) == 4
    assert host.attempts() == pytest.approx([0, 1, 3, 6], abs=0.2)
    assert now() == pytest.approx(6, abs=0.2)
    assert "the retry limit of 3 (Dequeueable:Singleton:MaxRetries) is reached" in str(caught.value)
    assert (caught.value.lock, caught.value.owner, caught.value.reason) == (NAME, "inv-1", "retries")


@virtual
async def test_success_on_any_attempt_ends_them() -> None:
    host = Host()
    await occupy(host.network.service, NAME)

    async def leave() -> None:
        await until(2)
        await host.network.service.release(NAME, foreign_id())

    await asyncio.gather(host.acquire(), leave())
    assert host.attempts() == pytest.approx([0, 1, 3], abs=0.2)


@virtual
async def test_without_retries_it_asks_once() -> None:
    host = Host(DequeueableOptions(retries=0))
    await occupy(host.network.service, NAME)
    with pytest.raises(LockNotAcquired, match="retry limit of 0"):
        await host.acquire()
    assert len(host.attempts()) == 1


@virtual
async def test_a_time_out_of_the_declaration_counts_instead_of_the_retries() -> None:
    host = Host(DequeueableOptions(shortest=1, longest=4, retries=0))
    await occupy(host.network.service, NAME)
    with pytest.raises(LockNotAcquired) as caught:
        await host.acquire(timeout=8)
    assert host.attempts() == pytest.approx([0, 1, 3, 6, 8], abs=0.2)
    assert "retry limit" not in str(caught.value)


@virtual
async def test_asking_once_asks_once() -> None:
    host = Host()
    await occupy(host.network.service, NAME)
    with pytest.raises(LockNotAcquired):
        await host.acquire(timeout=0)
    assert len(host.attempts()) == 1
    assert now() < 1


@virtual
async def test_without_a_shortest_delay_waiting_for_a_time_out_is_no_storm() -> None:
    host = Host(DequeueableOptions(shortest=0))
    await occupy(host.network.service, NAME)
    with pytest.raises(LockNotAcquired):
        await host.acquire(timeout=5)
    assert 10 < len(host.attempts()) <= 51


@virtual
async def test_storage_that_denies_access_is_no_contention() -> None:
    """D-26."""
    host = Host()
    host.network.fail_all(answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await host.acquire()
    assert now() < 1


@virtual
async def test_storage_that_does_not_answer_uses_up_attempts_and_is_told_as_that() -> None:
    host = Host()
    host.network.fail_all(answered(503, "ServerBusy"))
    with pytest.raises(StorageUnavailable):
        await host.acquire()
    assert now() > 40


@virtual
async def test_storage_that_comes_back_is_used() -> None:
    host = Host()
    host.network.fail_all(answered(503, "ServerBusy"))

    async def heal() -> None:
        await until(15)
        host.network.heal()

    await asyncio.gather(host.acquire(), heal())
    assert now() < 30


@virtual
async def test_two_messages_of_one_host_are_handled_one_after_the_other() -> None:
    """D-39."""
    host = Host()
    inside: list[str] = []

    async def handle(owner: str) -> None:
        hold = await host.take(None, owner)
        inside.append(owner)
        assert len(inside) == 1
        await asyncio.sleep(0.5)
        inside.remove(owner)
        await host.registry.release(hold)

    await asyncio.gather(handle("a"), handle("b"))
    assert now() == pytest.approx(1.5, abs=0.2)


@virtual
async def test_a_cancelled_wait_ends_at_once_and_leaves_nothing() -> None:
    """D-30."""
    host = Host()
    await occupy(host.network.service, NAME)
    waiting = asyncio.create_task(host.acquire())
    await asyncio.sleep(0.5)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert now() < 0.6
    assert host.network.service.leased() == {NAME: foreign_id()}


@virtual
async def test_holds_have_tokens_that_increase() -> None:
    host = Host()
    tokens = []
    for _ in range(3):
        hold = await host.take(None, "x")
        tokens.append(hold.token)
        await host.registry.release(hold)
    assert all(later > earlier for earlier, later in pairwise(filter(None, tokens)))
    assert len(tokens) == 3
