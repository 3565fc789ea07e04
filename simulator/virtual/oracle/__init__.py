"""Judges at the instant: what hosts believe and send against what the service knows.

It is told of everything, and knows holds, events and options only. Worlds and the functions they run may not enter.
"""
