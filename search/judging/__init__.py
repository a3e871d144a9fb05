"""The judge: whether a candidate is right and how fast it is, without trusting it."""
