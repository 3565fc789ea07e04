"""The app whose functions docs/layouts.md shows."""

from __future__ import annotations

import azure.functions as func

app = func.FunctionApp()

__all__ = ["app", "func"]
