"""Who must exclude whom: the lock that a declaration and a message ask for, read from the specification alone.

The verdict holds the product's lock to this reading. So nothing of `singleton` may enter, and nothing that runs.
"""
