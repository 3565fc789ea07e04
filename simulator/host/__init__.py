"""One fake Azure Functions host: a process that imports the user's app and calls its functions.

Only the fleet and the explorer are above it; it knows neither.
"""
