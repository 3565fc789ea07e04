"""The part for Azure Functions: guards around invocations, listeners, triggers and their payloads.

Only the decorator and ``singleton.testing`` stand above it.
"""
