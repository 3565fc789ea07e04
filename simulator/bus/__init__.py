"""A message broker with locks: what Service Bus promises of delivery. The fleet runs it; its hosts are the receivers.

It knows neither apps nor hosts: nothing else of the simulator may enter.
"""
