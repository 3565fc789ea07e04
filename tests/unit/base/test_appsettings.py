"""App settings are read from the environment, which belongs to the whole process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base import appsettings
from singleton.base.appsettings import section, setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class TakenAwayMeanwhile(dict[str, str]):
    """An environment in which another thread deletes a variable while ours looks through it."""

    def __iter__(self) -> Iterator[str]:
        for name in list(self.keys()):
            self.pop("TAKEN_AWAY", None)
            yield name


def environment() -> TakenAwayMeanwhile:
    return TakenAwayMeanwhile({"TAKEN_AWAY": "1", "orders__accountname": "orders"})


def test_a_variable_that_another_thread_deletes_meanwhile_disturbs_nobody() -> None:
    assert setting(environment(), "Orders:accountName") == "orders"
    assert [*section(environment(), "ORDERS")] == [("orders__accountname", "accountname", "orders")]


def test_the_environment_is_one_object_until_a_setting_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Shop:Region", "north")
    first = appsettings.environment()
    assert appsettings.environment() is first
    assert setting(first, "shop__region") == "north"
    monkeypatch.setenv("Shop:Region", "south")
    assert setting(appsettings.environment(), "SHOP__REGION") == "south"
    assert setting(first, "Shop:Region") == "north"
    monkeypatch.delenv("Shop:Region")
    assert setting(appsettings.environment(), "Shop:Region") is None
