"""What a host reads before it runs: its configuration, the app's settings and host.json, the app's functions.

No storage, no loop and no lock may enter.
"""
