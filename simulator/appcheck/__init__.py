"""``singleton-sim check``: imports an app in a process of its own, has it checked, and shows what was found.

No storage, no host and no run may enter.
"""
