"""A checked declaration of ``@once``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from singleton.functions.declaration import Declaration
from singleton.functions.misdeclaration import in_worker
from singleton.functions.triggers import refuse_returned
from singleton.layouts.layout import Layout
from singleton.patterns.once.keys import Key, once_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from singleton.base.events import Call
    from singleton.base.kinds import Level


class OnceLayout(Layout):
    """Names of operations' locks."""

    __slots__ = ()

    def lock(
        self,
        host_id: str,
        function: str,
        scopes: Sequence[str],
        level: Level = "function",  # noqa: ARG002 - a function's operations are its own
        *,
        listener: bool = False,  # noqa: ARG002
    ) -> str:
        """See ``Layout.lock``."""
        return once_name(host_id, function, *scopes)


@dataclass(frozen=True, kw_only=True)
class OnceDeclaration(Declaration):
    """One declaration of ``@once``. ``keep``: seconds."""

    decorator: ClassVar[str] = "@once"
    key: Key = field(repr=False)
    keep: float
    outputs: Literal["always", "first"]

    def check_settings(self) -> None:
        """See ``Declaration.check_settings``."""
        super().check_settings()
        if in_worker() and self.enabled and self.key.template is not None:
            self.key.template.bind(os.environ, None)

    def call(self, arguments: Mapping[str, Any], context: Any) -> Call:
        """See ``Declaration.call``."""
        call = super().call(arguments, context)
        refuse_returned(call.function, self.outputs, self.trigger)
        return call

    def _scopes(self, arguments: Mapping[str, Any]) -> list[str]:
        return [self.key.of(arguments, self.trigger)]
