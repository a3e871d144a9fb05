"""Policies of the search: what choosing costs, what each finds, and what a budget by headroom saves."""
