"""Stand-ins for what a candidate would launch kernels with."""
