"""Regions of a traced forward that a context manager opened."""

from __future__ import annotations

from typing import Any

import torch

_GRADIENTS, _AUTOCAST = "wrap_with_set_grad_enabled", "wrap_with_autocast"


def inline_regions(module: torch.fx.GraphModule) -> None:
    """Put the operators of regions into the graph of `module` that a forward pass computes alike without them.

    These are regions that switch gradients on or off, or automatic conversion (autocast) off. Others stay:
    within autocast `torch.export` does not show what is converted.
    """
    for node in list(module.graph.nodes):
        name = getattr(node.target, "__name__", "")
        if name == _GRADIENTS or (name == _AUTOCAST and not node.args[2]):
            _inline(module, node)


def _inline(module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    at = next(at for at, arg in enumerate(node.args) if getattr(arg, "op", "") == "get_attr")
    place: Any = node.args[at]
    inner = getattr(module, place.target)
    inline_regions(inner)
    given = [one for one in inner.graph.nodes if one.op == "placeholder"]
    with module.graph.inserting_before(node):
        known = dict(zip(given, node.args[at + 1 :], strict=True))
        results: Any = module.graph.graph_copy(inner.graph, known)
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)
    if not place.users:
        module.graph.erase_node(place)
