"""Where a lock's blob is: names, and data on how to wait for a lock. It must not import stores and locks."""
