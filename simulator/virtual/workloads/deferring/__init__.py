"""Messages that are put back while their lock is held, and a ledger of what happens to each."""
