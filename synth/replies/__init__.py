"""Parsers of a model's replies."""
