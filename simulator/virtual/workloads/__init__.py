"""The workloads of ``singleton-sim explore``: guarded functions, queues, semaphores, leaderships, deferred messages.

The seed of a world decides every detail. ``builtin`` registers the workloads by name.
"""
