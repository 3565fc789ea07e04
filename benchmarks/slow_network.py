"""A network with a delay: a relay in a process of its own, which passes on each request some milliseconds later.

    python -m benchmarks.slow_network PORT MILLISECONDS      writes its port, relays until its input ends

Answers are passed on at once, so a call takes the delay once, as on a network whose round trip takes that long.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def delayed(port: int, milliseconds: float) -> Iterator[int]:
    """Run a relay to the port; yield the relay's port."""
    command = [sys.executable, "-m", "benchmarks.slow_network", str(port), str(milliseconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout is not None
        yield int(relay.stdout.readline())
        relay.communicate()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Pass on what comes, in its order, until the sender ends."""
    later = asyncio.get_running_loop().call_later
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            later(delay, writer.write, data) if delay else writer.write(data)
    later(delay, writer.close)


async def relay(port: int, delay: float) -> None:
    """Relay connections to the port until the input of this process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_service, from_client = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(asyncio.CancelledError):  # the relay ends, and somebody still has a connection
            await asyncio.gather(_pass_on(reader, from_client, delay), _pass_on(to_service, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1]), float(sys.argv[2]) / 1e3))
