"""Recognising what a task computes and what went wrong, by the patterns of `kb.records.patterns`."""
