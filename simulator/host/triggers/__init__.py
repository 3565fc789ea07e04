"""Queues and timers as the Functions host drives them: polling, schedules, poison, back-off, outputs.

Each is given its service, its clock and what it runs; no worker, process or lock may enter.
"""
