"""The base of all faults: a frozen record that can be drawn at random, saved as JSON, and told in words.

The fates of a request have one table, for virtual worlds and for real hosts.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
}
"""The types in JSON of a field with this type."""

FATES: Final = {
    "request lost": "{are} lost",
    "reply lost": "{are} carried out, and {replies} lost",
    "request reset": "{are} lost by a reset",
    "reply reset": "{are} carried out, and {replies} lost by a reset",
    "late": "{arrive} {seconds:g} s late",
    "reply late": "{are} answered {seconds:g} s late",
    "twice": "{arrive} twice, {seconds:g} s apart",
}
"""The fates of a request, in words; every other fate is an answer with an error."""


def fate_words(
    fate: str, seconds: float, *, are: str = "are", replies: str = "the replies are", arrive: str = "arrive"
) -> str:
    """Tell a fate of requests in words: for many requests, or with other words for a single request.

    >>> fate_words("late", 0.5), fate_words("503", 0.0, are="is")
    ('arrive 0.5 s late', 'is answered 503')
    """
    sentence = FATES.get(fate, f"{{are}} answered {fate}")
    return sentence.format(are=are, replies=replies, arrive=arrive, seconds=seconds)


def drawn(default: Any, draw: Callable[[random.Random], Any]) -> Any:
    """Make a field of a fault with this draw."""
    return field(default=default, metadata={"draw": draw})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """Something that goes wrong at ``at`` seconds."""

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Any]]]
    """The kinds of the family, by name; a class with a kind enters itself."""
    at: float

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind
        if "kind" in vars(cls):  # also when dataclass makes the class once more, for its slots
            cls.kinds[cls.kind] = cls

    @classmethod
    def draws(cls) -> dict[str, Callable[[random.Random], Any]]:
        """Return the draw of each field that has a draw of its own."""
        return {each.name: each.metadata["draw"] for each in fields(cls) if "draw" in each.metadata}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"kind": self.kind, **asdict(self)}
