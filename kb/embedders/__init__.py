"""Written with its first part."""
