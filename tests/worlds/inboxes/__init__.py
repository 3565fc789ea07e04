"""The workload ``ordered``: an inbox, its senders and handlers, and what must be true of them."""
