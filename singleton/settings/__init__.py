"""What an app is told from outside: host.json, app settings, connections, the host id.

Pure but for reading host.json; locks, stores and layouts may not enter.
"""
