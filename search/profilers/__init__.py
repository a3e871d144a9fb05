"""Profilers: what a task costs and where a candidate's time goes."""
