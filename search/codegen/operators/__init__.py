"""Operator families as primitive nodes: elementwise, reductions, losses, recurrent layers."""
