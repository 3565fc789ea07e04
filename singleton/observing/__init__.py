"""OpenTelemetry: metrics and spans, made of the events of locks. Imported only on request."""
