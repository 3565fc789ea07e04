"""The judges: each check is a pure function from a history to findings; the verdict puts them together.

A check knows nothing of the others. No process, host or screen may enter.
"""
