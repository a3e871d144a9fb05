"""The schema of records, and the library's Markdown files as records."""
