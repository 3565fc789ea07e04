"""Queues and timers as the Functions host drives them: polling, schedules, poison, back-off, outputs.

A listener gets a service, a clock and a function to run. No worker, process or lock may enter.
"""
