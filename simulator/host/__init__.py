"""One fake Azure Functions host: a process that imports the user's app and calls its functions.

Only the fleet, and what explores, stand above it; it knows nothing of either.
"""
