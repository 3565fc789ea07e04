"""A world: machines, their locks, the service, faults that strike, an oracle that watches, and a record of it all.

The work of the machines may not enter.
"""
