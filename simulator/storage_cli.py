"""``singleton-sim storage``: the storage emulator for a developer's own app, until Ctrl-C."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from simulator.azurite.install import AzuriteError, version
from simulator.azurite.server import Azurite
from simulator.program import ENVIRONMENT, PROGRAM, complain
from simulator.real.settle import Interrupt, Signals

USUAL: Final = {"Blob": 10000, "Queue": 10001, "Table": 10002}
"""The ports that ``UseDevelopmentStorage=true`` means."""
_SHORT: Final = "UseDevelopmentStorage=true"
_HIGHEST: Final = 65535
_LOOK_EVERY: Final = 0.2
"""Seconds between two looks at whether the emulator still runs."""


@click.command(
    context_settings={"show_default": True, "max_content_width": 100},
    epilog="Exit codes: 2 a wrong option, 3 the emulator failed, 128 + n ended by signal n.",
)
@click.option("--blob-port", "blob", default=USUAL["Blob"], metavar="PORT", help="Where blobs are; 0: any free port.")
@click.option("--queue-port", "queue", default=USUAL["Queue"], metavar="PORT", help="Where queues are.")
@click.option("--table-port", "table", default=USUAL["Table"], metavar="PORT", help="Where tables are.")
@click.option(
    "--any-port", is_flag=True, show_default=False, help="Take free ports, for all services whose port is not given."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the data in this folder. Default: in memory, gone at the end.",
)
@click.pass_context
def storage(context: click.Context, /, data: Path | None, *, any_port: bool, **ports: int) -> None:
    """Run the storage emulator for your app, and print the connection string. Ctrl-C ends it.

    It is Azurite, which is installed the first time. With the ports as they are, the connection string of your app is
    UseDevelopmentStorage=true.
    """
    chosen = {service: ports[service.lower()] for service in USUAL}
    if any_port:
        usual = [each for each in USUAL if context.get_parameter_source(each.lower()) is ParameterSource.DEFAULT]
        chosen |= dict.fromkeys(usual, 0)
    for service, port in chosen.items():
        _check_port(service, port, chosen)
    if data is not None:
        data = _folder(data)
    with Signals() as signals:
        try:
            _serve(Azurite(_tell, ports=chosen, data=data), data)
        except AzuriteError as error:
            context.exit(complain(str(error), ENVIRONMENT))
        except Interrupt:
            _tell(f"{PROGRAM}: stopped" + ("" if data is None else f"; its data is in {data}"))
            context.exit(signals.exit_code)


def _serve(azurite: Azurite, data: Path | None) -> None:
    with azurite:
        print("\n".join(_words(azurite, data)), flush=True)  # noqa: T201 - what the command is for
        while True:
            time.sleep(_LOOK_EVERY)
            azurite.check()


def _words(azurite: Azurite, data: Path | None) -> list[str]:
    ports = {"Blob": azurite.blob_port, "Queue": azurite.queue_port, "Table": azurite.table_port}
    usual = ports == USUAL
    told = _SHORT if usual else azurite.connection_string
    return [
        "Azurite {} runs: blobs on port {Blob}, queues on {Queue}, tables on {Table}.".format(version(), **ports),
        "Its data is in memory, and gone at its end." if data is None else f"Its data is in {data}.",
        "",
        f"Connection string: {azurite.connection_string}",
        *([f"In short:          {_SHORT}"] if usual else []),
        "",
        "In a terminal:          " + f"export AzureWebJobsStorage='{told}'",
        "In local.settings.json: " + f'"AzureWebJobsStorage": "{told}"',
        "",
        "Ctrl-C ends it.",
    ]


def _check_port(service: str, port: int, chosen: dict[str, int]) -> None:
    """Refuse a port that can't be had: Azurite's own words for it name no option."""
    option = f"--{service.lower()}-port"
    if not 0 <= port <= _HIGHEST:
        raise click.UsageError(f"{option} is {port}: it must be from 1 to {_HIGHEST}, or 0 for any free port")
    same = [other for other, its in chosen.items() if port and its == port and other != service]
    if same:
        raise click.UsageError(f"{option} and --{same[0].lower()}-port are both {port}: give each a port of its own")
    with socket.socket() as probe:
        if os.name != "nt":
            # A port whose last connections are still winding down is free, as Azurite sees it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise click.UsageError(
                f"{option} {port}: the port can't be used ({error.strerror}). Perhaps another emulator runs: use that "
                f"one, or end it, or give another port; {option} 0 takes any that is free, --any-port does so for all"
            ) from None


def _folder(data: Path) -> Path:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--data {data}: the folder can't be made: {error.strerror}") from None
    if not os.access(data, os.W_OK):
        raise click.UsageError(f"--data {data}: nothing can be written there")
    return data.resolve()


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
