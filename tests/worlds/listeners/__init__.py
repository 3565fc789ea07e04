"""Functions with ``mode="listener"``, and what their invocations answer. How worlds are chosen may not enter."""
