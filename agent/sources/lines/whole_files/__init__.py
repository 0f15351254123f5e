"""Files that are read at once: exports, tables, copied text, packed logs."""
