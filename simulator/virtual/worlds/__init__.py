"""A world: machines, their locks, the service, faults that strike, an oracle that watches, and a record of it all.

What the machines work on may not enter.
"""
