"""The deterministic heart: locks, leases, tokens, semaphores, campaigns.

It uses the running loop's clock, a seeded random source and a store. No SDK, no thread and no setting may enter.
"""
