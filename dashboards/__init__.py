"""Grafana's dashboards as code; `make dashboards` writes them as JSON."""
