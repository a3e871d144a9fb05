"""Targets: the devices of this machine, and the records that describe them."""
