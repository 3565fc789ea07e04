"""A module of the app in which no app is a global."""

from __future__ import annotations

import azure.functions as func  # noqa: TC002 - the worker resolves the annotation

from singleton import singleton


@singleton(scope_id="busy", level="host", on_contention="skip")
def elsewhere(msg: func.QueueMessage) -> str:
    """Return something, under a lock that another process has."""
    return "done"
