"""Many hosts in one process, in virtual time: worlds that are the same for the same seed, and are judged.

Real hosts, real storage and the command line may not enter.
"""
