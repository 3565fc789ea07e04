"""Which value scopes a lock: a path into a JSON body, or a template. Pure; knows of settings only how one is read."""
