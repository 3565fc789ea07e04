"""Functions of a Blueprint, and the journal that all bodies write."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import azure.functions as func

from singleton import current_hold, singleton

if TYPE_CHECKING:
    from collections.abc import Callable

blueprint: Callable[[], func.Blueprint] = func.Blueprint
steps = blueprint()
JOURNAL = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
STEP = 0.03


def write(edge: str, **more: Any) -> None:
    hold = current_hold()
    entry = {"edge": edge, "at": time.monotonic(), "pid": os.getpid(), "lock": hold.lock, "token": hold.token}
    os.write(JOURNAL, (json.dumps({**entry, "owner": hold.owner, **more}) + "\n").encode())


@steps.timer_trigger(arg_name="timer", schedule="0 */5 * * * *")
@singleton
def step_sync(timer: func.TimerRequest) -> None:
    write("in")
    time.sleep(STEP)
    write("out")


@singleton(scope="Order:Id")
@steps.queue_trigger(arg_name="msg", queue_name="steps", connection="AzureWebJobsStorage")
def step_above(msg: str) -> None:
    write("in")
    time.sleep(STEP)
    write("out")
