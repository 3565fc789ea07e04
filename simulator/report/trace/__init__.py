"""A run in Chrome's trace event format, which Perfetto and chrome://tracing open.

`drawing.py` says what of a run is drawn where. `sheet.py` knows the format, and shares slices among threads.
"""
