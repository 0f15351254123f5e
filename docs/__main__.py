"""Writes the reference pages: `python -m docs`."""

from pathlib import Path

from docs.reference_pages import pages

FOLDER = Path(__file__).parent

for name, text in pages().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
