"""What the hosts of a world do: guarded functions, queues, semaphores, leaderships, or a user's own app.

A workload is drawn from the world's seed. How worlds are chosen may not enter.
"""
