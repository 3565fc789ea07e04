"""Messages that go back while their lock is busy, and a ledger of what becomes of each."""
