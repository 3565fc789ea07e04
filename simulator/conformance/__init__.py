"""The promises of a blob store to locks, as data and scenarios: requests on each state of a lease, and the answers.

``tests/conformance`` runs the scenarios on the model in memory and on Azurite. The simulator has them, because a
command can then run the scenarios on a user's storage account. Imports ``singleton`` only.
"""
