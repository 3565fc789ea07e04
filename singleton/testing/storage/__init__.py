"""A model of the storage in memory: blobs, leases, logs and queues. No lock, no setting."""
