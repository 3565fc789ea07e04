"""What a lock and a queue need of their storage, and the stores: Azure, and a model in memory.

It must not import what is built on a store, or settings: a store is given its client.
"""
