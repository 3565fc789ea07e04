"""Lock clients that come and go, used in all ways that they have. How worlds are chosen may not enter."""
