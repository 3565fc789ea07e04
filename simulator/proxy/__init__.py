"""Faults between clients and storage: rules (the fault, and the requests that match), and the proxy to apply rules.

Nothing here knows locks, hosts or checks: the proxy is between a client and any storage.
"""
