"""Deterministic virtual time for the shipped lock code."""
