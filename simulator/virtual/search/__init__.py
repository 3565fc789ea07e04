"""The search for a broken promise: scenarios by number, the smallest that breaks it, and its story in words.

Only the command line stands above it.
"""
