"""Patterns on top of the locks, for what a lock alone can't give. Nothing is imported here: ask for the module."""
