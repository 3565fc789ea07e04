"""Puts numbers of three digits into the search of the site: a part of Sphinx for docs/conf.py.

People look for the status of an answer, such as 403. docs/search.js does the same with what they type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sphinx.search.en import SearchEnglish

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _WithNumbers(SearchEnglish):
    def word_filter(self, word: str) -> bool:
        return (len(word) == 3 and word.isdigit()) or super().word_filter(word)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this part to Sphinx."""
    app.add_search_language(_WithNumbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
