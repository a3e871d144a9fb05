from collections.abc import Callable

import numpy as np
import pytest
import torch

from kb.errors import TaskError, ToolchainError
from search.reference import load_problem
from search.seeds import drawn_on
from search.task import Task

HEAD = "import torch\nimport torch.nn as nn\n"
GOOD_INPUTS = "\ndef get_inputs():\n    return [torch.rand(4, 3)]\n"


def model(forward: str, init: str = "pass") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x):\n        {forward}\n"
    )


BAD = {
    "raises on import": (HEAD + "1 / 0\n", r"the reference raised ZeroDivisionError at line 3"),
    "is not Python": ("def broken(:\n", r"SyntaxError at line 1"),
    "leaves": ("import sys\nsys.exit(3)\n", r"SystemExit"),
    "has no Model": (HEAD + GOOD_INPUTS, r"expected a class Model"),
    "has a Model that is no module": ("class Model: pass\n", r"expected a class Model\(nn.Module\)"),
    "has no get_inputs": (model("return x"), r"expected a function get_inputs"),
    "constructor raises": (model("return x", "raise ValueError('no')") + GOOD_INPUTS, r"Model\(...\) raised ValueError"),
    "forward raises": (model("return x @ x") + GOOD_INPUTS, r"forward\(\) raised RuntimeError at line 8"),
    "inputs raise": (model("return x") + "\ndef get_inputs():\n    raise KeyError('k')\n", r"get_inputs\(\) raised KeyError"),
    "inputs are no list": (model("return x") + "\ndef get_inputs():\n    return 3\n", r"must return a list"),
    "inputs hold no tensor": (model("return x") + "\ndef get_inputs():\n    return [3]\n", r"returned no tensor"),
    "an input is empty": (model("return x") + "\ndef get_inputs():\n    return [torch.rand(0)]\n", r"input 0 is empty"),
    "an input is an object": (model("return x") + "\ndef get_inputs():\n    return [object()]\n", r"input 0 is a object"),
    "init inputs are no list": (
        model("return x") + GOOD_INPUTS + "\ndef get_init_inputs():\n    return 3\n", r"get_init_inputs\(\) must return a list",
    ),
    "output is NaN": (model("return torch.log(-x - 1)") + GOOD_INPUTS, r"output 0 has 12 of 12 elements that are NaN"),
    "output is double": (
        model("return x.double()") + GOOD_INPUTS, r"output 0 is torch.float64: kb judges outputs in torch.float32, torch.float16",
    ),
    "output is empty": (model("return x[:0]") + GOOD_INPUTS, r"output 0 is empty"),
    "output is no tensor": (model("return 3.0") + GOOD_INPUTS, r"returns a float"),
    "output holds no tensor": (model("return x, 3") + GOOD_INPUTS, r"output 1 is a int"),
    "output is nothing": (model("return ()") + GOOD_INPUTS, r"empty tuple"),
    "is random": (
        model("return nn.functional.dropout(x, 0.5, True)") + GOOD_INPUTS, r"two runs on equal inputs differ.*eval\(\)",
    ),
    "changes its input": (model("return x.mul_(2)") + GOOD_INPUTS, r"forward changes its input 0"),
    "needs too much memory": (model("return torch.empty(1 << 50)") + GOOD_INPUTS, r"more memory than this machine has"),
    "has parameters elsewhere": (
        model("return x", "self.w = nn.Parameter(torch.empty(2, device='meta'))") + GOOD_INPUTS, r"parameter w is on meta",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_reference_that_cannot_be_judged_is_told_in_one_line(
    make_task: Callable[..., Task], name: str
) -> None:
    source, pattern = BAD[name]
    with pytest.raises(TaskError, match=pattern) as caught:
        load_problem(make_task(source))
    assert "\n" not in str(caught.value)
    assert "reference.py" in str(caught.value)


def test_parameters_are_moved_off_their_initial_values(make_task: Callable[..., Task]) -> None:
    source = model("return self.norm(x) + self.shift", "self.norm = nn.BatchNorm1d(3); self.norm.eval(); "
                   "self.shift = nn.Parameter(torch.zeros(3)); self.register_buffer('mask', torch.ones(3))")  # fmt: skip
    problem = load_problem(make_task(source + GOOD_INPUTS))
    for name in ("norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "shift"):
        assert not torch.equal(problem.state[name], problem.initial_state[name]), name
    assert (problem.state["norm.running_var"] > 0).all()
    assert torch.equal(problem.state["mask"], problem.initial_state["mask"])
    assert torch.equal(problem.model.state_dict()["shift"], problem.state["shift"])


def test_equal_seeds_draw_equal_inputs_and_leave_the_global_generator_alone(
    make_task: Callable[..., Task],
) -> None:
    problem = load_problem(make_task(model("return x * 2") + GOOD_INPUTS))
    before = torch.random.get_rng_state()
    one, two, three = problem.draw(1)[0], problem.draw(1)[0], problem.draw(2)[0]
    assert isinstance(one, torch.Tensor)
    assert isinstance(two, torch.Tensor)
    assert isinstance(three, torch.Tensor)
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert torch.equal(before, torch.random.get_rng_state())


def test_scalars_tuples_and_a_missing_get_init_inputs_are_fine(
    make_task: Callable[..., Task],
) -> None:
    source = HEAD + (
        "class Model(nn.Module):\n    def forward(self, x, scale, flag):\n        return x * scale, x.t()\n"
        "def get_inputs():\n    return [torch.rand(4, 3), 2.5, True]\n"
    )
    problem = load_problem(make_task(source))
    assert not problem.single_output
    assert [layout.shape for layout in problem.outputs] == [(4, 3), (3, 4)]
    assert problem.outputs[1].strides == (1, 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device here")
def test_a_device_that_is_not_there_is_not_the_references_fault(
    make_task: Callable[..., Task],
) -> None:
    source = """
    import torch, torch.nn as nn
    class Model(nn.Module):
        def forward(self, x): return x + 1
    def get_inputs(): return [torch.rand(4)]
    """
    with pytest.raises(ToolchainError, match="expected an NVIDIA device"):
        load_problem(make_task(source), device="cuda")


COUNTABLE = """
import numpy as np
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
    def forward(self, places, order):
        return self.table(places)[order]
def get_inputs():
    return [torch.randint(10, (64,)), torch.arange(64)]
"""


@pytest.mark.parametrize(
    ("source", "packing", "packs"),
    [
        (COUNTABLE, "allowed", False),
        (COUNTABLE, "tables", True),
        (COUNTABLE, "forbidden", False),
        (model("return x") + GOOD_INPUTS, "allowed", True),
        (model("return x") + GOOD_INPUTS, "forbidden", False),
    ],
)
def test_where_every_input_could_be_in_a_table_packing_takes_a_word_of_its_own(
    make_task: Callable[..., Task], source: str, packing: str, packs: bool
) -> None:
    assert load_problem(make_task(source, packing=packing)).packs is packs


@pytest.mark.parametrize(
    ("forward", "views", "twins"),
    [
        ("return x.t()", {0}, set()),
        ("return x + 1", set(), set()),
        ("y = x + 1; return y, y", set(), {0, 1}),
        ("y = x + 1; return x + 2, y, x, y[0]", {2}, {1, 3}),
        ("return x + 1, x + 1", set(), set()),
    ],
)
def test_the_outputs_that_share_memory_in_the_reference_are_known(
    make_task: Callable[..., Task], forward: str, views: set[int], twins: set[int]
) -> None:
    problem = load_problem(make_task(model(forward) + GOOD_INPUTS))
    assert (problem.views, problem.twins) == (views, twins)


def test_inputs_are_drawn_on_the_device_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_way_of_the_processor() -> list[torch.Tensor]:
        return [torch.from_numpy(np.sort(torch.rand(4).numpy()))]

    def other_numbers_each_time() -> list[torch.Tensor]:
        return [torch.full((4,), next(numbers))]

    def leaves() -> list[torch.Tensor]:
        raise SystemExit(3)

    numbers = iter(range(9))
    before = torch.get_rng_state()
    assert drawn_on("cpu:0", lambda: [torch.rand(4)])()[0].shape == (4,)
    assert drawn_on("cpu:0", other_numbers_each_time) is other_numbers_each_time
    assert drawn_on("cpu:0", leaves) is leaves
    assert drawn_on("meta", by_way_of_the_processor) is by_way_of_the_processor
    torch.set_rng_state(before)
    monkeypatch.setattr(torch, "equal", lambda one, other: one.shape == other.shape)
    assert drawn_on("meta", lambda: [torch.rand(4)])()[0].device.type == "meta"


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        (
            "torch.rand(4, 3), float(torch.rand(()))",
            r"get_inputs\(\) returns \[.*, 0\.\d+\] in one call and",
        ),
        (
            "torch.rand(int(torch.randint(4, 999, ())), 3), 2.0",
            r"get_inputs\(\) returns \[\(\(\d+, 3\), torch.float32\), 2.0\] in one call and",
        ),
    ],
)
def test_what_varies_but_for_the_values_of_tensors_is_no_task(
    make_task: Callable[..., Task], drawn: str, told: str
) -> None:
    source = model("return x * y").replace("forward(self, x)", "forward(self, x, y)")
    problem = load_problem(make_task(f"{source}\ndef get_inputs():\n    return [{drawn}]\n"))
    with pytest.raises(TaskError, match=told):
        problem.draw(7)


def test_more_outputs_than_an_arena_has_places_for_are_refused_in_a_line(make_task):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return tuple(x + n for n in range(300))\n"
        "def get_inputs():\n    return [torch.randn(4)]\n"
    )
    with pytest.raises(TaskError, match="300 tensors: at most 256"):
        load_problem(make_task(source))
