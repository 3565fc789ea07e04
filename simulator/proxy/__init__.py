"""Faults between clients and storage: rules (what goes wrong with which requests) and the proxy that applies them.

Nothing here knows locks, hosts or checks: the proxy is between a client and any storage.
"""
