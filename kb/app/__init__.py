"""The application: what the commands, the MCP server and the web pages share. No typer here."""
