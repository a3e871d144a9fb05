"""The judge on a processor."""
