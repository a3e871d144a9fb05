"""Reading in processes of limited rights, and a scan for prompt injection."""
