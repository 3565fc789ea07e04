"""The default layout: names that no two locks share, in a container of one's choice, and fencing tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.layouts.layout import Plain
from singleton.layouts.naming import lock_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level, Stamp
    from singleton.settings.options import SingletonOptions


class DefaultLayout(Plain):
    """Injective names in a container of one's choice, fencing tokens, and waiting in line."""

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """See ``Layout.adapted``."""
        return options

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """See ``naming.lock_name``."""
        return lock_name(host_id, function, scopes, level, listener=listener)

    def stamp(self, *, listener: bool = False) -> Stamp:  # noqa: ARG002 - a leader has a token, too
        """See ``Layout.stamp``."""
        return "token"
