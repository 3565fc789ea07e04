"""The storage emulator: installed once, started on ports of its own, gone without a trace.

Nothing here knows hosts, apps or runs.
"""
