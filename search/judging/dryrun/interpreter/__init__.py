"""Triton's interpreter, with bounds, races and narrow types."""
