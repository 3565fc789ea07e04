"""Functions hosts of a world: invocations, queue listeners, and the bodies that work under a hold.

What the hosts have to do, and how worlds are chosen, may not enter.
"""
