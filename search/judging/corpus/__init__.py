"""Candidates that cheat, that are honest and that break, run against the judge of this machine."""
