"""From a program's profile to its bottleneck in words and numbers."""
