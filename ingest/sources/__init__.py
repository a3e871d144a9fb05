"""Where documents come from: folders, archives, single files."""
