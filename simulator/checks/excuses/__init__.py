"""Which faults excuse which failures, on which hosts and locks, and for how long.

The effects of each kind are in `simulator/faults`.
Everything here is a pure function of a `History`. Without faults nothing is excused. No check may be imported.
"""
