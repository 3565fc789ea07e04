"""Seeing the user's own functions run: when each begins and ends, for which invocation, and what it leaves running.

It asks nothing of the product, whose word it is there to check; no `singleton` may enter.
"""
