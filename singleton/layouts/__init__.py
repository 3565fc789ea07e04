"""Where a lock's blob is: pure names, and how a lock is waited for as data. No store and no lock may enter."""
