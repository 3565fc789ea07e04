"""A run in real time: real host processes on one storage, some of them killed or paused, watched until they settle.

Virtual time may not enter, nor the command line.
"""
