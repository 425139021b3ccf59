"""Generated data, and readers of single research corpora."""
