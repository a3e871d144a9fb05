"""Inductor writes for a GPU that is not here where a program has constants, slices, masks and writes in place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recipe_bench import reference
from torch._prims_common import suggest_memory_format

from kb.app.queries import find_target
from search.codegen.inductor.fake_cuda import _layout, _taken
from search.codegen.inductor.process import capture, device_of

X = torch.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    "asked",
    [
        0,
        slice(1, None),
        (0, -1),
        (slice(None), slice(0, 2), slice(None, None, 2)),
        (..., slice(None, 3)),
        (0, ..., None, 2),
        (slice(None), None, 1, ..., slice(1, 3)),
        (),
        ...,
        None,
        (slice(None), torch.tensor([2, 0])),
        (slice(None), [2, 0]),
        (..., torch.tensor([[1, 2], [0, 4]])),
        (torch.tensor([0, 1]), torch.tensor([2, 1]), slice(1, 2)),
    ],
    ids=repr,
)
def test_an_index_takes_what_torch_takes(asked: object) -> None:
    assert torch.equal(_taken(X, asked), X[asked])


@pytest.mark.parametrize("asked", [torch.tensor(1), X[0, 0, 0] > 0, True], ids=repr)
def test_an_index_that_is_not_known_is_refused(asked: object) -> None:
    with pytest.raises(NotImplementedError):
        _taken(X, asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "inputs", "init"),
    [
        # Inductor computes constants while it compiles: these have some.
        ("return F.logsigmoid(a) + torch.logsumexp(a, (0, 2), keepdim=True)", 1, "pass"),
        ("return F.poisson_nll_loss(a, b) + F.binary_cross_entropy_with_logits(a, b)", 2, "pass"),
        (
            "return F.scaled_dot_product_attention(a, b, b, attn_mask=self.m[:8, :8] > 0)",
            2,
            "self.register_buffer('m', torch.tril(torch.ones(16, 16)))",
        ),
        # These methods ask the device before they ask the operator.
        ("return F.gelu(a[:, 1:, ::2].permute(2, 0, 1).contiguous()[0][:, [1, 0]])", 1, "pass"),
        ("b = a * 0 + 1\nb[:, 0] = a[:, 1]\nreturn b.masked_fill(~(a > 0), 2.0)", 1, "pass"),
    ],
    ids=["extremes", "losses", "a mask that is cut", "slices", "written in place"],
)
def test_code_is_written_without_the_device(
    body: str, inputs: int, init: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    source = reference(body, *["torch.randn(4, 8, 8)"] * inputs, init=init)
    assert "async_compile.triton" in capture(source, device=device_of(find_target("h200"))).code


# In a process of its own: the stand-ins for the device's driver stay.
PROGRAM = """
import torch
from torch._subclasses import FakeTensorMode, fake_tensor
from search.codegen.inductor.fake_cuda import fake_cuda

def touched(device):  # as a torch with CUDA does where it takes a device to be there
    raise RuntimeError(f"no driver for {device}")

fake_tensor.init_gpu_context = touched
figures = {"capability": [9, 0], "units": 132, "shared": 232448, "warp": 32, "name": "NVIDIA H100"}
with fake_cuda(figures), FakeTensorMode():
    print(torch.empty(3, device="cuda:0").device)
with FakeTensorMode():
    torch.empty(3, device="cuda:0")
"""


@pytest.mark.slow
def test_a_tensor_that_stands_for_one_on_the_device_touches_no_device() -> None:
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "cuda:0\n", done.stderr
    assert "no driver for cuda:0" in done.stderr, "without it the device is touched"


LAST, PLAIN = torch.channels_last, torch.contiguous_format
# Channels in and out, groups, side of the kernel.
CONVOLUTIONS = [(64, 64, 1, 3), (64, 128, 1, 1), (64, 64, 64, 3), (64, 128, 64, 3), (64, 64, 4, 3), (1, 32, 1, 3)]  # fmt: skip


def operands(
    convolution: tuple[int, int, int, int], source: torch.memory_format, weight: torch.memory_format
) -> tuple[torch.Tensor, torch.Tensor]:
    into, out, groups, side = convolution
    shapes = (2, into, 9, 9), (out, into // groups, side, side)
    x, w = (torch.randn(shape) for shape in shapes)
    return x.to(memory_format=source), w.to(memory_format=weight)


@pytest.mark.parametrize("convolution", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize(
    ("source", "weight", "result"),
    [(PLAIN, PLAIN, PLAIN), (LAST, PLAIN, LAST), (PLAIN, LAST, LAST), (LAST, LAST, LAST)],
)
def test_a_result_is_channels_last_where_an_operand_is(
    convolution: tuple[int, int, int, int],
    source: torch.memory_format,
    weight: torch.memory_format,
    result: torch.memory_format,
) -> None:
    """Depthwise ones too, and those whose only channel makes both layouts the same numbers: measured on an H200."""
    assert _layout(*operands(convolution, source, weight), None) is result


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("convolution", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("source", [PLAIN, LAST])
@pytest.mark.parametrize("weight", [PLAIN, LAST])
def test_the_library_leaves_the_layout_that_is_said(
    convolution: tuple[int, int, int, int], source: torch.memory_format, weight: torch.memory_format
) -> None:
    x, w = (one.cuda() for one in operands(convolution, source, weight))
    side, groups = convolution[3] // 2, convolution[2]
    made = torch.convolution(x, w, None, (1, 1), (side, side), (1, 1), False, (0, 0), groups)
    assert suggest_memory_format(made) is _layout(x, w, None)
