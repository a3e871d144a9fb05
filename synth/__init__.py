"""Knowledge to prompt to source."""
