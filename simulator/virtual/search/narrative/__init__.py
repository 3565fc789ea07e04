"""How a story is told: what the records say, what the broken promise names, what is left out, and in which words.

All is read from a run's records. Worlds, workloads and faults may not enter.
"""
