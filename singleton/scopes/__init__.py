"""Which value scopes a lock: a path into a JSON body, or a template. No I/O; of settings it can only read one."""
