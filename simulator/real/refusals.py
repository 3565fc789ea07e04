"""What is refused before anything starts: no storage, no process and no folder is there yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from simulator.nemesis.wires import WireError, services_of
from simulator.real.storage import checked_storage
from simulator.work.apps import check_app
from simulator.work.feed import check_messages
from simulator.work.scenario import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.work.scenario import Scenario


def refuse(scenario: Scenario) -> None:
    """See whether the files and the storage of a run can be used, as far as that shows without starting anything.

    Raises:
        ScenarioError: one of them can't.
    """
    check_app(scenario.app)
    if scenario.messages is not None:
        check_messages(scenario.messages)
    if scenario.storage:
        storage = checked_storage(scenario.storage, cloud=scenario.cloud)
        if scenario.struck:
            try:
                services_of(storage)
            except WireError as error:
                raise ScenarioError(f"--storage: {error}") from error


def check_output(option: str, path: Path) -> None:
    """See whether a file can be written at the end of a run; nothing is written yet.

    Raises:
        ScenarioError: it can't.
    """
    folder = path.absolute().parent
    if path.is_dir():
        raise ScenarioError(f"{option} {path}: it is a folder: name a file in it")
    if not folder.is_dir():
        raise ScenarioError(f"{option} {path}: there is no folder {folder}: create it, or name another file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        what = path if path.exists() else folder
        raise ScenarioError(f"{option} {path}: {what} can't be written: name another file")
