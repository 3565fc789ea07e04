"""The lock thread of a process: its loop, the registry of locks and stores, and the calls from other threads.

The package imports neither ``singleton.functions`` nor the lock clients.
"""
