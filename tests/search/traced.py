"""A reference from the lines that matter, as a graph of operators."""

from pathlib import Path

from search.costs.graph import OperatorGraph
from search.costs.trace import operator_graph
from search.reference import Problem, load_problem
from search.task import Task, TaskFile


def traced(folder: Path, forward: str, inputs: str, init: str = "pass") -> OperatorGraph:
    """Return the graph of a module whose forward takes x, y and z."""
    return operator_graph(reference_of(folder, forward, inputs, init))


def reference_of(folder: Path, forward: str, inputs: str, init: str = "pass") -> Problem:
    """Return that module as a reference."""
    source = (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x, y=None, z=None):\n        {forward}\ndef get_inputs():\n    return [{inputs}]\n"
    )
    path = folder / "reference.py"
    settings = TaskFile(reference=path.name)
    task = Task(name="t", path=path, reference=path, source=source, settings=settings)
    return load_problem(task)
