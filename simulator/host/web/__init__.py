"""HTTP triggers: their routes, their requests, and the port on which a host serves them.

It calls no function itself: the runner, which is above it, does.
"""
