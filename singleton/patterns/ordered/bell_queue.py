"""The queue of an inbox's bells, by its arguments: whether the trigger of a function gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from singleton.base.errors import ConfigurationError
from singleton.base.words import with_article
from singleton.defer.trigger_queue import trigger_queue
from singleton.functions.deferrable import check_installed
from singleton.functions.misdeclaration import OF_THE_APP
from singleton.functions.triggers import QUEUE
from singleton.settings.connection import (
    StorageAccount,
    checked_connection_string,
    resolve_blob_account,
    resolve_queue_account,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from singleton.defer.trigger_queue import Encoding
    from singleton.functions.triggers import Trigger


class BellQueue(NamedTuple):
    """The name of an inbox, and where its bells are."""

    inbox: str
    connection: str
    queue: str
    encoding: Encoding

    def look_up_settings(self, settings: Mapping[str, str]) -> None:
        """Raise ``ConfigurationError`` if the connection has no app setting, or a wrong one."""
        check_installed("an inbox", OF_THE_APP)
        queue_account(self.connection, settings)
        if "=" not in self.connection:
            resolve_blob_account(self.connection, settings)

    def wrong_queue(self, trigger: Trigger, settings: Mapping[str, str], app_dir: Path | None) -> str | None:
        """Say why no bell reaches this trigger: another queue, account or encoding; None: a bell does, or may."""
        if trigger.type != QUEUE:
            return f"its trigger is {with_article(trigger.type)}: use a queueTrigger on the inbox's queue"
        try:
            listens = trigger_queue(trigger.settings, settings, app_dir, lambda name: StorageAccount(setting=name))
        except ConfigurationError:  # a setting is missing: the host does not run the function
            return None
        connections = listens.account.setting, self.connection
        if listens.queue not in (self.queue, f"{self.queue}-poison"):
            theirs, ours = f"queue {listens.queue!r}", f"queue {self.queue!r}"
        elif _differ(connections, settings):
            shown = ("a connection string" if "=" in each else repr(each) for each in connections)
            theirs, ours = (f"the account of {each}" for each in shown)
        elif (self.encoding, listens.encoding) == ("none", "base64"):
            theirs, ours = "messageEncoding 'base64'", "encoding 'none', which the host can't read"
        else:
            return None
        return f"its trigger has {theirs}, and inbox {self.inbox!r} has its bells in {ours}: give both the same"


def _differ(connections: tuple[str, str], settings: Mapping[str, str]) -> bool:
    """Tell whether two connections surely name different accounts."""
    try:
        names = {queue_account(connection, settings).name for connection in connections}
    except ConfigurationError:  # a setting is missing here
        return False
    return len(names) > 1 and "" not in names


def queue_account(connection: str, settings: Mapping[str, str]) -> StorageAccount:
    """Return the account of the queue. ``ConfigurationError``: nothing is set for the connection, or it is wrong."""
    if "=" in connection:
        return StorageAccount(checked_connection_string(connection, "the connection string"))
    return resolve_queue_account(connection, settings)
