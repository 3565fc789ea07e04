"""The commands of ``singleton-locks``, and how each of them ends: with a code and one line, never with a traceback."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from typing import TYPE_CHECKING, Final

import click

from singleton.base.errors import ConfigurationError, ScopeError, SingletonError
from singleton.cli.container_commands import doctor, lift_epochs, sweep
from singleton.cli.holder_commands import break_, hold
from singleton.cli.name_command import name
from singleton.cli.output import AnswerState, say, write_json
from singleton.cli.view_commands import ahead, list_, show, state, watch
from singleton.operating.container import NO_CONTAINER
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

PROGRAM: Final = "singleton-locks"
USAGE: Final = 2
_NOTHING: Final = logging.NullHandler()
ENVIRONMENT: Final = 3

HELP: Final = """Show who has which lock; break a lock, hold one, delete the blobs of unused ones.

\b
  singleton-locks list --held
  singleton-locks show locks/myapp/ship.42
  singleton-locks break locks/myapp/ship.42
"""


class Ended(BaseException):
    """A signal, ``number``, asked the command to end. A KeyboardInterrupt would be taken for Ctrl-C by click."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@click.group(
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog="Exit codes: 0 done, 1 the answer is no, 2 a wrong option or name, 3 storage failed. "
    "What each command does, with examples: docs/locks-cli.md.",
)
@click.version_option(package_name="azure-functions-singleton", prog_name=PROGRAM)
@click.pass_context
def cli(context: click.Context) -> int:
    """Run a command of ``singleton-locks``; without one, say which there are."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
    return USAGE


for command in (list_, show, watch, state, break_, hold, sweep, lift_epochs, ahead, name, doctor):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    with _signals():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    for logger in ("singleton", "azure"):  # what they log is told by the commands, in their own words
        logging.getLogger(logger).addHandler(_NOTHING)
    told = AnswerState()
    fail = functools.partial(_fail, told if "--json" in given else None)
    try:
        code = cli.main(args=given, prog_name=PROGRAM, standalone_mode=False, obj=told)
        sys.stdout.flush()
    except click.ClickException as error:
        return fail(error.format_message(), USAGE)
    except (ConfigurationError, ScopeError) as error:
        return fail(str(error), USAGE)
    except SingletonError as error:
        return fail(str(error), USAGE if error.reason == NO_CONTAINER else ENVIRONMENT)
    except Ended as ended:
        return _complain("ended", 128 + ended.number)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except (BrokenPipeError, SystemExit):  # click makes the second of the first
        # Whoever read our output has gone, with what was wanted, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in one line
        with tempfile.NamedTemporaryFile("w", prefix=f"{PROGRAM}-", suffix=".log", delete=False) as log:
            log.write(redact(traceback.format_exc()))
        return fail(f"unexpected {type(error).__name__}: {error}; the traceback is in {log.name}", ENVIRONMENT)
    return int(code or 0)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Have signals end the command as Ctrl-C does: the command gives its holds back."""
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, _end) for name in names if (number := getattr(signal, name, None))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise Ended(number)


def _fail(told: AnswerState | None, text: str, code: int) -> int:
    """Say what went wrong; also as JSON where that was asked for and the answer has not begun."""
    if told is not None and not told.answer:
        write_json({"error": redact(text), "exit": code})
    return _complain(text, code)


def _complain(text: str, code: int) -> int:
    say(f"{PROGRAM}: {redact(text)}", err=True)
    return code
