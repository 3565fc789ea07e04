"""What stands on the blob of a lock: the epoch of its tokens, who has it, the mark of a hold that is touched."""
