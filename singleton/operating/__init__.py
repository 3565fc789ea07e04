"""What an operator does with locks: list, break, watch and sweep them, and examine the storage beneath.

No lock needs this room, and a Functions app imports nothing of it. Clients and the command line may not enter.
"""
