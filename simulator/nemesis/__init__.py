"""Faults of real hosts are struck here: plans, aims, the nemesis, and the wires by which hosts reach the storage.

The nemesis knows hosts by their names, locks by their blobs, and requests. Processes, journals of hosts and verdicts
may not enter: `simulator/real` gives it a field to strike.
"""
