"""What an operator does with locks: list, break, watch and sweep them, and examine the storage beneath.

No lock needs this room, and a Functions app does not import it. It must not import clients and the command line.
"""
