"""``singleton-sim pilot``: what locks rely on, tried on the user's own account, in a container of its own."""
