"""How many random faults in honest-looking kernels the judge catches."""
