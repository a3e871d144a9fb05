"""A wheelhouse: everything that a machine without a network needs to install `kb`, in one folder."""
