"""Faults between clients and storage: rules (what goes wrong with which requests) and the proxy that obeys them.

Nothing here knows locks, hosts or checks: it stands between a client and any storage.
"""
