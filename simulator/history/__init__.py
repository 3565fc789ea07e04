"""What happened: the journals that hosts and the fleet write, and the facts that are read from them.

No judgement may enter, nor anything that runs.
"""
