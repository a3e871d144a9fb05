"""Drivers: they ask a search for work, do it, and tell it the results."""
