"""How a story is told: what the records say, what of it the broken promise names, what is left out, in which words.

What is told is read from a run's records only. Worlds may not enter.
"""
