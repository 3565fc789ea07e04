"""HTTP/1.1 between the shipped stores and the model of the storage service, in bytes and without sockets.

It knows the stores and the service. Worlds and judges may not enter.
"""
