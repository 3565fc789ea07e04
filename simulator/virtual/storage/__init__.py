"""The storage service, who had which lease when, and the network to it.

It knows the requests of stores. The code on machines may not enter, and the judges neither.
"""
