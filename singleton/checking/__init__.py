"""Finds what would fail at run time only: looks at an app's functions and settings, and runs none of them.

It needs no storage and no network. It may import all of ``singleton`` but what is above it: tests, commands, patterns.
"""
