"""See the user's own functions run: when each begins and ends, for which invocation, and what it leaves running.

It asks the product nothing, as it checks the product. No `singleton` may enter.
"""
