"""The layouts by name. To add one, write a class and add a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.base.kinds import LayoutName
    from singleton.layouts.layout import Layout


def layout_named(name: LayoutName, settings: Mapping[str, str], dotnet_name: str | None = None) -> Layout:
    """Return the layout of this name, with what the app settings say of it.

    Args:
        name: the layout's.
        settings: the app settings.
        dotnet_name: the full name of the C# function whose locks these are; only for ``"webjobs"``.

    Raises:
        ConfigurationError: a setting of it is wrong.
    """
    if name == "webjobs":
        from singleton.dotnet.webjobs import WebJobsLayout

        return WebJobsLayout(dotnet_name)
    if name == "dequeueable":
        from singleton.dotnet.dequeueable import DequeueableLayout, load_dequeueable

        return DequeueableLayout(load_dequeueable(settings))
    from singleton.layouts.layout import Layout

    return Layout()
