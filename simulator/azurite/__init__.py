"""The storage emulator: installed once, started on free ports, and removed without a trace.

Nothing here knows hosts, apps or runs.
"""
