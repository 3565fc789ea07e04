"""What people and machines see of a run: the board, a live view, plain lines, JSON, a verdict in words.

It only shows: nothing that runs or judges may enter.
"""
