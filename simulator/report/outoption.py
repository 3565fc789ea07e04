"""An option of the command line that names a file to be written: it is checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from simulator.report.outfile import OutFile, OutFileError


def _out_file(context: click.Context, parameter: click.Parameter, value: Path | None) -> OutFile | None:
    try:
        return None if value is None else OutFile(parameter.opts[0], value)
    except OutFileError as error:
        raise click.UsageError(str(error), context) from None


TRACE: Final = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    callback=_out_file,
    metavar="FILE",
    help="Write what happened as a trace, which Perfetto opens.",
)
"""``--trace FILE``, which gives the command an `OutFile`."""


def opened_with(file: OutFile) -> str:
    """Say where a trace is, and how to look at it."""
    return f"The trace is in {file.given}: open it at https://ui.perfetto.dev"
