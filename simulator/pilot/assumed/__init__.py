"""The assumptions about the blob service: the table of its answers, scenarios, and random histories."""
