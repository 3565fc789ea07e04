"""Once: of all calls with one key the first does the work, and the others get its result (S-14)."""
