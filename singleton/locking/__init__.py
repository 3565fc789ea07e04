"""The deterministic core: locks, leases, tokens, semaphores, campaigns.

It uses the running loop's clock, a seeded random source and a store. It must not import an SDK, threads or settings.
"""
