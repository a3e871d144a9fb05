"""Sizes that a kernel reads at run time, checked by evaluating the texts for other sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from search.codegen.backends.symbolic_sizes import Extent, Seen
from search.codegen.ir import Shape
from search.codegen.iteration_space import Space
from search.strides import contiguous


def values(extent: Extent, **shapes: Shape) -> dict[str, int]:
    """Return the sizes that the host statements compute for tensors of these shapes."""
    scope: dict[str, object] = {
        name: SimpleNamespace(shape=shape) for name, shape in shapes.items()
    }
    for line in extent.lines():
        exec(line, {}, scope)
    return {name: int(str(scope[name])) for name in extent.names}


def seen(name: str, shape: Shape, access: tuple[int, ...]) -> Seen:
    return Seen(text=f"{name}.shape", shape=shape, access=access)


def test_a_dimension_is_read_from_the_tensor_that_has_it() -> None:
    space = Space(sizes=(4, 6, 35), reduced=(2, 3))
    extent = Extent(space, [seen("t0", (4, 6, 5, 7), (210, 35, 1))], "D")
    assert values(extent, t0=(2, 3, 4, 4)) == {"D0": 2, "D1": 3, "D2": 16}


def test_of_a_dimension_that_falls_apart_the_inner_part_is_what_is_left() -> None:
    # Twelve channels in four groups: the number of groups is the operator's.
    space = Space(sizes=(2, 4, 3, 35), reduced=(2, 4))
    extent = Extent(space, [seen("t0", (2, 12, 35), (420, 105, 35, 1))], "D")
    assert values(extent, t0=(5, 20, 6)) == {"D0": 5, "D1": 4, "D2": 5, "D3": 6}


@pytest.mark.parametrize(
    ("access", "dims"),
    [
        ((210, 35, 1), (0, 1, 2)),
        ((0, 35, 1), (0, 1, 2)),
        ((6, 1, 0), (0, 1, 2)),
        ((35, 0, 1), (0, 1, 2)),
        ((0, 1, 0), (0, 1)),
        ((0, 0, 0), (0, 1, 2)),
    ],
)
def test_an_offset_is_that_of_the_element(access: tuple[int, ...], dims: tuple[int, ...]) -> None:
    space = Space(sizes=(4, 6, 35), reduced=(0, 0))
    extent = Extent(space, [seen("t0", (4, 6, 35), space.full)], "D")
    text = extent.offset(access, dims, "i") or "0"
    small = (2, 3, 5)  # other sizes than those of the text
    sizes = dict(zip(extent.names, small, strict=True))
    strides = [0 if not access[d] else 1 for d in range(3)]
    kept = [size if stride else 1 for size, stride in zip(small, strides, strict=True)]
    steps = [s if stride else 0 for s, stride in zip(contiguous(kept), strides, strict=True)]
    inner = contiguous([small[d] for d in dims])
    total = inner[0] * small[dims[0]]
    for index in range(total):
        at = {d: index // step % small[d] for d, step in zip(dims, inner, strict=True)}
        wanted = sum(at[d] * steps[d] for d in dims)
        assert eval(text, {}, {**sizes, "i": index}) == wanted


def test_the_shape_of_a_result_follows_the_sizes() -> None:
    space = Space(sizes=(4, 6, 35), reduced=(2, 3))
    extent = Extent(space, [], "D")
    assert extent.shape((24, 35), space.full) == "(D0 * D1, D2)"
    assert extent.shape((4, 6, 1), space.row) == "(D0, D1, 1)"
    assert extent.shape((), (0, 0, 0)) == "()"
