"""Connections to brokers: client properties, TLS, SASL, requests, a pool."""
