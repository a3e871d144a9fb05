"""Prompts and answers as files in a folder."""
