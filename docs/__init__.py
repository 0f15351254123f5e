"""The documentation; `python -m docs` writes `docs/reference`, which is made from the code."""
