"""What `kb doctor` and `kb check` look at."""
