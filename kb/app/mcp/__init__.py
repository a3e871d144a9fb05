"""What `kb mcp` offers: a task at work, its prompt, its tools."""
