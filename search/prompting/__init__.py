"""What a prompt says about the search and its knowledge."""
