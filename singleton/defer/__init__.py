"""Putting a queue message back: how, which queue, how often it has failed. It must not import functions and locks."""
