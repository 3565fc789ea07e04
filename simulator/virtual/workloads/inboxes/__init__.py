"""The workload ``ordered``: an inbox, who sends to it, who handles its messages; and what must hold of them."""
