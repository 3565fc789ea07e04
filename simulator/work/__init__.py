"""The input of a run: its scenario, the app to run, and the messages that are sent to it.

No storage and no host process may enter: an app is described by a process of its own.
"""
