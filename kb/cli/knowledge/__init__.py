"""Commands around the knowledge base: documents, search, ideas, lessons, effects."""
