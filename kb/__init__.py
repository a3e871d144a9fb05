"""What is known: records, retrieval, and the command line."""

__version__ = "0.1.0"
