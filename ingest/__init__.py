"""Documents in: from files to passages."""
