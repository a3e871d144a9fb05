"""Operators of torch as problems: which ones, and the programs that stand for them."""
