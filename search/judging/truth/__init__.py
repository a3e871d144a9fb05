"""The truth that answers are compared with."""
