"""Candidates for a GPU that is not here: compiled for it, checked in an interpreter, never timed."""
