"""All broken locks."""

from __future__ import annotations

from tests.broken import (
    wrong_answers,
    wrong_bodies,
    wrong_bounds,
    wrong_clients,
    wrong_coalescing,
    wrong_holds,
    wrong_keeping,
    wrong_losses,
    wrong_names,
    wrong_options,
    wrong_results,
    wrong_turns,
    wrong_words,
)
from tests.broken.breaking import BROKEN

_KINDS = (
    wrong_names,
    wrong_bodies,
    wrong_holds,
    wrong_answers,
    wrong_results,
    wrong_turns,
    wrong_options,
    wrong_keeping,
    wrong_losses,
    wrong_bounds,
    wrong_clients,
    wrong_coalescing,
    wrong_words,
)

__all__ = ["BROKEN"]
