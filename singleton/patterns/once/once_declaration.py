"""A checked declaration of ``@once``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from singleton.base.words import quoted
from singleton.functions.declaration import Declaration
from singleton.functions.trigger_rules import refuse_returned
from singleton.layouts.layout import Layout
from singleton.patterns.once.keys import Key, once_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from singleton.base.appsettings import Environment
    from singleton.base.kinds import Level
    from singleton.functions.triggers import Trigger


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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OnceDeclaration(Declaration):
    """One declaration of ``@once``. ``keep``: seconds."""

    decorator: ClassVar[str] = "@once"
    key: Key
    keep: float
    outputs: Literal["always", "first"]

    def look_up_settings(self, function: str, settings: Environment) -> None:
        """See ``Declaration.look_up_settings``."""
        super().look_up_settings(function, settings)
        if self.key.template is not None:
            self.key.template.outline(settings)

    @property
    def looked_up(self) -> str | None:
        """See ``Declaration.looked_up``. A function of the user's own may make a key of anything."""
        given, template = self.key.given, self.key.template
        is_found = isinstance(given, str) and (template is None or template.paths)
        return f"the key {quoted(given)}" if is_found else None

    @property
    def asked_for(self) -> tuple[str, str]:
        """See ``Declaration.asked_for``."""
        given = self.key.given if isinstance(self.key.given, str) else ""
        return ("", given) if self.key.template is None else (given, "")

    def rules(self, trigger: Trigger) -> Iterator[Callable[[], None]]:
        """See ``Declaration.rules``."""
        yield from super().rules(trigger)
        if self.outputs == "first":
            yield partial(refuse_returned, f"{self.decorator} on {trigger.function or self.function}", trigger)

    def _scopes(self, arguments: Mapping[str, Any]) -> list[str]:
        return [self.key.of(arguments, self.trigger)]
