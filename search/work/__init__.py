"""Judging on many machines: the database holds the work, workers take it under leases."""
