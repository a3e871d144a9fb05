"""Candidates whose launches are captured in a CUDA graph at their first call, and replayed."""

from __future__ import annotations

import ast
import re

from kb.records.schema import TargetRecord
from search.costs.graph import OperatorGraph
from search.costs.trace import family
from search.costs.work import least_seconds

_FORWARD = re.compile(r"^    def forward\(self(.*)\).*:$", re.MULTILINE)
# Seconds that Python takes for an operator of a reference: to launch kernels, and to make tensors for them. A program of
# torch.compile's kernels took 27 to 52 us on three networks of 29 to 88 operators, on H200s.
_LAUNCH = 40e-6
_FEWEST = 8  # operators
_REPLAYED = '''import weakref

_GRAPHS = weakref.WeakKeyDictionary()


def _replayed(module, compute, given):
    """Replay the launches of `compute` on copies of what is given; they are captured again where a weight changed."""
    tensors = [g for g in given if isinstance(g, torch.Tensor)]
    kept = _GRAPHS.get(module)
    if kept is None:
        shelves = [s for m in module.modules() for s in (m._parameters, m._buffers, m.__dict__)]
        owners = [(s, n) for s in shelves for n in s if isinstance(s[n], torch.Tensor)]
    else:
        owners = kept[0]
    own = [shelf.get(name) for shelf, name in owners]
    if len({t.device for t in (*own, *tensors) if t is not None}) > 1:
        return compute(*given)  # what lies elsewhere is read when launches are captured, and never again

    def state():
        versions = [None if t is None else t._version for t in own]
        shapes = [(g.shape, g.dtype) if isinstance(g, torch.Tensor) else g for g in given]
        return versions, shapes

    # The tensors are kept themselves: another one may come to lie where one was freed.
    if kept is None or kept[2] != state() or any(a is not b for a, b in zip(kept[1], own)):
        with torch.no_grad():
            held = [g.clone() if isinstance(g, torch.Tensor) else g for g in given]
            # What is compiled, chosen or packed once happens now; what is counted in buffers is put back.
            buffers = [(b, b.clone()) for b in module.buffers()]
            compute(*held)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = compute(*held)
            for buffer, before in buffers:
                buffer.copy_(before)
        kept = _GRAPHS[module] = (owners, own, state(), held, graph, results)
    _, _, _, held, graph, results = kept
    for mine, g in zip(held, given):
        if isinstance(g, torch.Tensor):
            mine.copy_(g)
    graph.replay()
    if isinstance(results, torch.Tensor):
        return results.clone()
    return tuple(r.clone() for r in results)'''


def replayed(source: str) -> str:
    """Return a candidate with its forward captured and replayed.

    Each call copies its inputs to where the graph reads them, and the results from where it writes them.
    """
    begin = re.search(r"^class ModelNew\b", source, re.MULTILINE)
    assert begin is not None
    found = _FORWARD.search(source, begin.start())
    assert found is not None
    tree = ast.parse(f"def forward(self{found[1]}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)][1:]
    given = "".join(f"{name}, " for name in names)
    head = f"{found[0]}\n        return _replayed(self, self._computed, ({given}))\n\n"
    renamed = found[0].replace("def forward(", "def _computed(", 1)
    return (
        f"{source[: begin.start()]}{_REPLAYED}\n\n\n{source[begin.start() : found.start()]}"
        f"{head}{renamed}{source[found.end() :]}"
    )


def launch_bound(graph: OperatorGraph, target: TargetRecord) -> bool:
    """Say whether Python probably takes longer to launch the operators of `graph` than `target` to do them."""
    operators = sum(family(one) is not None for one in graph.operators)
    busy = least_seconds(graph, target.peak, target.bandwidth)
    return operators >= _FEWEST and busy < _LAUNCH * operators
