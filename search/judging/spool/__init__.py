"""A folder between two machines: jobs on one side, answers on the other, files and nothing else."""
