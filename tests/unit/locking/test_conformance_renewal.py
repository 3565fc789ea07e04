"""How often a lease is renewed, by an option (X-2, M-2, M-4, S-8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, SingletonOptions
from singleton.settings.options import load_options
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import CONNECTION, InlineHost, on
from tests.support.network import answered
from tests.support.world import now, virtual

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("options", "every"),
    [
        ({}, 7.5),
        ({"lock_period": 60}, 30),
        ({"renewal_interval": 5}, 5),
        ({"lock_period": 60, "renewal_interval": 50}, 50),
    ],
)
@virtual
async def test_a_lease_is_renewed_at_half_its_period_or_as_the_option_says(
    options: dict[str, Any], every: float
) -> None:
    host = InlineHost(MemoryLeaseStore())
    chosen = SingletonOptions(fencing_tokens=False).replace(**options)
    with on(host):
        async with AsyncLockClient(CONNECTION, options=chosen).lock("job"):
            taken = now()
            await asyncio.sleep(6 * every + 1)
    sent = [request.sent - taken for request in host.network.requests if request.call == "renew"]
    assert sent == pytest.approx([every * number for number in range(1, 7)], abs=0.1)


@virtual
async def test_however_late_it_is_renewed_one_lost_answer_costs_nothing() -> None:
    host = InlineHost(MemoryLeaseStore())
    host.network.plan("renew", answered(500), answered(500))
    with on(host):
        async with AsyncLockClient(CONNECTION, options=SingletonOptions(renewal_interval=11)).lock("job") as hold:
            await asyncio.sleep(60)
            hold.raise_if_lost()


@pytest.mark.parametrize(
    ("options", "fine"),
    [
        ({"renewal_interval": 1}, True),
        ({"renewal_interval": 12.5}, True),
        ({"renewal_interval": 12.6}, False),
        ({"renewal_interval": 0}, False),
        ({"renewal_interval": 0.9}, False),
        ({"renewal_interval": -1}, False),
        ({"renewal_interval": float("inf")}, False),
        ({"lock_period": 60, "renewal_interval": 50}, True),
        ({"renewal_interval": 50, "lock_period": 60}, True),  # M-4: in any order
        ({"lock_period": 60, "renewal_interval": 59.9}, False),
        ({"lock_period": 60, "listener_lock_period": 30, "renewal_interval": 26}, False),
    ],
)
def test_it_leaves_time_for_another_try(options: dict[str, Any], fine: bool) -> None:
    if fine:
        assert SingletonOptions(**options).renewal_interval == options["renewal_interval"]
    else:
        with pytest.raises(ConfigurationError, match="renewal_interval is"):
            SingletonOptions(**options)


def test_host_json_has_it_as_a_time_span(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0", "singleton": {"renewalInterval": "00:00:05"}}')
    assert load_options(tmp_path, {}).renewal_interval == 5.0
    with pytest.raises(ConfigurationError, match=r"renewalInterval.*to 12\.5 seconds or less"):
        load_options(tmp_path, {"AzureFunctionsJobHost__singleton__renewalInterval": "00:00:14"})
