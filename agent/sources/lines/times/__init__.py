"""Stamps of lines: layouts, languages, zones."""
