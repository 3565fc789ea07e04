"""What configures an app: host.json, app settings, connections, the host id.

It does no I/O except for reading host.json. It must not import locks, stores and layouts.
"""
