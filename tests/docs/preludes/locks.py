"""What the reader of docs/locks.md has: work to do, another client, and an end to what would go on for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton import AsyncLockClient, LockClient, SingletonOptions
from tests.docs.running import end_of_block

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient

    from singleton import Hold

# Another candidate asks for a leadership again after so many seconds.
async_locks = AsyncLockClient(
    "AzureWebJobsStorage", options=SingletonOptions(listener_lock_recovery_polling_interval=15)
)
polled: list[str] = []


def beforehand() -> None:
    with LockClient() as locks, locks.lock(locks.lock_name("ship_order", "contoso")):
        pass


def make_client(container: str) -> ContainerClient:
    raise NotImplementedError(container)  # the locks of a test are in memory


def send_report() -> None: ...


def serve() -> None: ...


async def serve_async() -> None: ...


async def clean_up_async(hold: Hold) -> None:
    hold.raise_if_lost()
    end_of_block()


def poll() -> None:
    polled.append("once")
    end_of_block()
