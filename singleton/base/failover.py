"""The numbers of ``failover`` that several rooms share."""

from __future__ import annotations

from typing import Final

SHORTEST: Final = 2.0
LONGEST: Final = 10.0
"""Seconds, at least and at most."""
TOUCHES: Final = 3
"""Touches of a holder in the time of its ``failover``."""
LOOKS: Final = 4
"""Looks of a waiter in the time of its own."""
