"""The check of an app: reads functions and settings, runs nothing, and finds what would fail at run time only.

``singleton.testing.check_app`` calls the check in the user's process. So the modules here import ``singleton`` and the
standard library, and no other room of the simulator; the extra ``[check]`` brings no more. The command is in
``command/``.
"""
