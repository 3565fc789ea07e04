"""What goes wrong in virtual worlds. Each kind is a class that strikes, and can be drawn, told, saved and shrunk.

To add a kind, write a class in a module here. Worlds and judges may not enter.
"""

from __future__ import annotations

from simulator.virtual.faults import network

# isort: split
# In this order: the order of KINDS decides what a seed means.
from simulator.virtual.faults import hosts

# isort: split
from simulator.virtual.faults import queues

# isort: split
from simulator.virtual.faults import strange

# isort: split
from simulator.virtual.faults import silences

# isort: split
from simulator.virtual.faults import contents

# isort: split
from simulator.virtual.faults import inboxes
from simulator.virtual.faults.fault import KINDS, Fault, Lasting, fault_from

__all__ = [
    "KINDS",
    "Fault",
    "Lasting",
    "contents",
    "fault_from",
    "hosts",
    "inboxes",
    "network",
    "queues",
    "silences",
    "strange",
]
