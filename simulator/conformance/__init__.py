"""What locks rely on in a blob store, as data and scenarios: requests on each state of a lease, and their answers.

``tests/conformance`` runs them on the model in memory and on Azurite. They are here, so that a command can run them on
a user's storage account. Imports ``singleton`` only.
"""
