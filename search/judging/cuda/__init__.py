"""The judge on an NVIDIA GPU: the same rules as on the processor, on memory and clocks of a device."""
