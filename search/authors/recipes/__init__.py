"""The offline author: ideas and sources from the knowledge base's recipes, with no model."""

from search.authors.recipes.author import Recipes

__all__ = ["Recipes"]
