"""Which module ``import singleton`` finds: the package, or a module of an app's own, which hides the package.

A hidden package can't speak. So this module is outside, and the commands and the pytest plugin call ``hidden`` first.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

HIDDEN = 3
"""The exit code of a command whose package is hidden: the installation is wrong."""


def hidden() -> str | None:
    """Return what to say and do if a module of another owner hides the package; None: the package is found."""
    import singleton

    if "LockClient" in getattr(singleton, "__all__", ()):
        return None
    return (
        f"the module singleton is {getattr(singleton, '__file__', None) or 'a folder'} here. It hides the package "
        "azure-functions-singleton, which has the same name: @singleton of that module is no lock. Give the module "
        "another name; until then, take its folder off PYTHONPATH, or behind the installed packages on sys.path"
    )


def locks() -> int:
    """Run ``singleton-locks``, or say why it can't run."""
    return _run("singleton-locks", "singleton.__main__")


def simulator() -> int:
    """Run ``singleton-sim``, or say why it can't run."""
    return _run("singleton-sim", "simulator.cli")


def _run(command: str, module: str) -> int:
    def interrupted(*_: object) -> None:
        """End at once: in the middle of an import there is nothing to clean up, and an exception may be replaced."""
        os.write(2, f"{command}: interrupted\n".encode())
        os._exit(130)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, interrupted)
    said = hidden()
    if said is not None:
        sys.stderr.write(f"{command}: {said}\n")
        return HIDDEN
    main = import_module(module).main
    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = main()
    return code
