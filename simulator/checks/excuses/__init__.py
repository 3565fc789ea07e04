"""What the faults of a nemesis excuse: one statement for each kind, and who is meant by it, where and when.

Everything here is a pure function of a `History`. Without faults nothing is excused. No check may be imported.
"""
