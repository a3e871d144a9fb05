"""From blocks of text to passages."""
