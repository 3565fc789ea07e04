"""Lock clients that are opened and closed, and used in all ways. How worlds are chosen may not enter."""
