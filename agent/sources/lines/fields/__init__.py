"""Structured text: JSON, logfmt, printed objects, YAML and XML as fields of a record."""
