"""Once: the first call with a key does the work; later calls with this key get its result (S-14)."""
