"""OpenTelemetry: metrics and spans, made of the events of locks. Nothing here is imported before it is asked for."""
