"""All scenarios: an import of their modules puts them on the lists."""

from simulator.pilot.assumed import content_scenarios, lease_scenarios  # noqa: F401
from simulator.pilot.assumed.store_scenario import QUICK, SLOW, Fixture, StoreScenario, on_state

__all__ = ["QUICK", "SLOW", "Fixture", "StoreScenario", "on_state"]
