"""A run as a timeline: lanes, spans and marks, read from its records. The HTML report and the trace are drawn from it.

It only reads: it draws nothing, judges nothing, and knows no file.
"""
