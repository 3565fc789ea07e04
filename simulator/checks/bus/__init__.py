"""What is judged of a message broker's work, beside what happened to each message."""

from __future__ import annotations
