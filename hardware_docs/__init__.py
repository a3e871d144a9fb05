"""Shipped knowledge: data, not code. A package only so that a wheel carries it."""
