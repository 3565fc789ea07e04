"""The vocabulary of faults: kinds, fields, words, and the effects that a fault may have.

Three rooms carry faults out: `virtual/faults` in worlds, `nemesis` on real hosts, `proxy` on requests. The vocabulary
imports none of the three.
"""
