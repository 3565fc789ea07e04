"""What stands behind ``LockClient``: requests, sets of locks, leadership, periodic work. Functions may not enter."""
