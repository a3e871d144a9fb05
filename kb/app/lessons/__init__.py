"""What runs teach."""
