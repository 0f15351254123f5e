"""Dashboards drawn as SVG pictures for the documentation; `make pictures` writes them."""
