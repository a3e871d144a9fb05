"""The HTTP client of model endpoints."""
