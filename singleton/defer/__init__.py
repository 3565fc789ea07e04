"""Putting a queue message back: how, which queue, and how often it had failed. Functions and locks may not enter."""
