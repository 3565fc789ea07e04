"""Measurements: ``make bench``, or ``python -m benchmarks``. What is compared is measured side by side in one run."""
