"""What the leader of docs/how-to/leader.md does."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.docs.running import EndOfBlock, end_of_block


def afterwards(shown: Any) -> None:
    with contextlib.suppress(EndOfBlock):
        shown.poll_forever(end_of_block)
