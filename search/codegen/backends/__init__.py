"""Kernels for GPUs: the primitive nodes in Triton, and the file that they make."""
