"""What Azure Functions brings: guards around invocations, listeners, triggers and their payloads.

Only the decorator and ``singleton.testing`` stand above it.
"""
