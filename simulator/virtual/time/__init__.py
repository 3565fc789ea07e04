"""Virtual time: a loop whose clock jumps, the machines on it, and threads in step with it.

Nothing of locks or storage may enter.
"""
