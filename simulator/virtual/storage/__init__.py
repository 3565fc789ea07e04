"""The storage service, who had which lease when, and the network to it.

It knows what stores ask. What runs on machines may not enter, nor who judges.
"""
