"""What knowledge is worth to a strong author: the same tasks by letters, with retrieval, without, and as it was."""
