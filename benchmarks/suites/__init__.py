"""What suites come to before anything is judged."""
