"""Documents and passages in SQL."""
