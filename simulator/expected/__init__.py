"""What must exclude what: the lock that a declaration and a message ask for, read from the specification only.

The verdict compares the product's lock with this reading. So nothing of `singleton` may enter, and nothing that runs.
"""
