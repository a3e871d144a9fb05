"""Lessons: what a finished run teaches, with its evidence."""
