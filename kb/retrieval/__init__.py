"""Retrieval: from a query to ranked passages."""
