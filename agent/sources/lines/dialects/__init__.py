"""Rules of clients' logs, and the search for lines that they may match."""
