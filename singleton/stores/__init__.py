"""What a lock and a queue need of their storage, and the stores on Azure. A model in memory is in ``testing``.

It must not import what is built on a store, or settings: a store is given its client.
"""
