"""The value that scopes a lock: a path into a JSON body, or a template. No I/O, and of settings only look-ups."""
