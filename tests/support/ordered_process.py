"""A process that handles the messages of an inbox, or sends some, and writes down in a journal what it does.

    python ordered_process.py work JOURNAL CONTAINER INBOX SECONDS
    python ordered_process.py send JOURNAL CONTAINER INBOX LABEL KEYS COUNT

It needs nothing but ``singleton`` and the standard library. A worker ends when its input does. Each line of the journal
is appended by one write, so their order is that in which things happened.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from singleton import Inbox, SingletonOptions

if TYPE_CHECKING:
    from singleton import InboxMessage


def work(journal: int, inbox: Inbox, seconds: str) -> None:
    """Handle messages, each for so long."""

    def handle(message: InboxMessage) -> None:
        said = f"{os.getpid()} {message.key} {message.body} {message.token}\n"
        os.write(journal, b"begin " + said.encode())
        time.sleep(float(seconds))
        os.write(journal, b"end " + said.encode())

    with inbox.worker(handle, look_every=5):
        os.write(journal, f"ready {os.getpid()}\n".encode())
        sys.stdin.read()


def send(journal: int, inbox: Inbox, label: str, keys: str, count: str) -> None:
    """Send numbered messages to each key."""
    for number in range(int(count)):
        for key in range(int(keys)):
            inbox.send(f"key-{key}", f"{label}:{number}")
            os.write(journal, f"sent {os.getpid()} key-{key} {label}:{number}\n".encode())


if __name__ == "__main__":
    what, path, container, name, *rest = sys.argv[1:]
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    there = Inbox(name, "INBOXES", options=SingletonOptions(container=container))
    if what == "work":
        work(opened, there, *rest)
    else:
        send(opened, there, *rest)
