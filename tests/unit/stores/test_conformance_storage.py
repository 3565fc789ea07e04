"""Storage that can't have the lock's blob for the moment (W-56)."""

from __future__ import annotations

import pytest

from singleton.base.errors import StorageUnavailable
from tests.support.network import Network, answered
from tests.support.world import lock_on, now, virtual


@pytest.mark.parametrize("call", ["create", "acquire"])
@pytest.mark.parametrize(("timeout", "ends"), [(20, 20.0), (None, 60.0)])
@virtual
async def test_a_container_that_is_being_deleted_is_said_to_be(call: str, timeout: float | None, ends: float) -> None:
    """W-56: waited for, as it takes half a minute, then told with the service's code; never taken for contention."""
    network = Network()
    network.always(call, answered(409, "ContainerBeingDeleted"))
    with pytest.raises(StorageUnavailable, match="being deleted, and can't be used until that is done") as caught:
        await lock_on(network).acquire(timeout=timeout)
    assert (caught.value.status, caught.value.code) == (409, "ContainerBeingDeleted")
    assert ends - 1 < now() < ends + 8
