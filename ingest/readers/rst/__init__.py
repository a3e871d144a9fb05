"""reStructuredText."""
