"""What is refused before anything starts: no storage, no process and no folder is there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.nemesis.wires import WireError, services_of
from simulator.real.storage import checked_storage
from simulator.work.apps import check_app
from simulator.work.feed import check_messages
from simulator.work.scenario import ScenarioError

if TYPE_CHECKING:
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
