"""The offline author: ideas and sources from the knowledge base's recipes, with no model."""
