"""Checks and generators for developers; none of it is part of the wheel."""
