"""Judges at each instant: compares what hosts believe and send with what the service knows.

It is told of everything. It knows only holds, events and options. Worlds and their functions may not enter.
"""
