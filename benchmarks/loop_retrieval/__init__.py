"""How well a search's own questions find what an expert would hand to its author."""
