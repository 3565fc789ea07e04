"""What turns settings into stores: clients, credentials and ways to the service.

Nothing else in ``singleton`` knows both settings and stores.
"""
