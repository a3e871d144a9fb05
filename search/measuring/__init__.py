"""Measures the ideas that have recipes: reference tasks, what is rendered for them, the evidence."""
