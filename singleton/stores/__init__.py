"""What a lock and a queue ask of their storage, and who answers: Azure, or a model in memory.

What is built on a store may not enter, nor settings: a store is handed its client.
"""
