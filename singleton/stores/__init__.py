"""Where leases live: the protocol, Azure blobs, and a model of the service in memory."""
