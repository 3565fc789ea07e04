"""The readings of a host before its run: the configuration, the app's settings and host.json, the app's functions.

No storage, no loop and no lock may enter.
"""
