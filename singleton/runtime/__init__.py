"""The lock thread of a process: its loop, its registry of locks and stores, and how it is entered and left.

Azure Functions and the public API may not enter.
"""
