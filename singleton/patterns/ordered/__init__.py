"""In order: the messages of one key are handled in the order sent, by one consumer at a time. See ``protocol.py``."""
