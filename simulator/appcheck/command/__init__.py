"""``singleton-sim check``: imports an app in a process of its own, has the app checked, and writes the report.

No storage, no host and no run may enter.
"""
