"""Rates of a Hopper GPU that data sheets leave out."""
