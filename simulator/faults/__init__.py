"""Faults between clients and storage: rules (what goes wrong with which requests) and the proxy that obeys them."""

from simulator.faults.proxy import FaultProxy, ProxyThread
from simulator.faults.rules import (
    Action,
    Answer,
    Delay,
    DelayReply,
    Drip,
    DropReply,
    DropRequest,
    Exchange,
    Hang,
    Match,
    PassOn,
    Request,
    Rule,
    Truncate,
    everything,
    on,
)

__all__ = [
    "Action",
    "Answer",
    "Delay",
    "DelayReply",
    "Drip",
    "DropReply",
    "DropRequest",
    "Exchange",
    "FaultProxy",
    "Hang",
    "Match",
    "PassOn",
    "ProxyThread",
    "Request",
    "Rule",
    "Truncate",
    "everything",
    "on",
]
