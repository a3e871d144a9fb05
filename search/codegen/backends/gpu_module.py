"""The candidate's file for a GPU: the reference's module with its forward made of kernels."""

from __future__ import annotations

from collections.abc import Mapping

from search.codegen.backends.prelude import mentioned, needed
from search.codegen.ir import Shape
from search.codegen.lower import LoweredProgram
from search.codegen.module_writer import Forward, RenderedSegment, fill, split_imports, strip
from search.codegen.segments import Segment
from search.strides import contiguous


def assemble(
    source: str,
    program: LoweredProgram,
    parts: tuple[Segment, ...],
    kernels: Mapping[str, RenderedSegment],
) -> str:
    """Return the whole candidate.

    Args:
        source: text of the reference.
        parts: segments in an order in which they can run.
        kernels: the rendered segments by their ids; the others are library calls.

    Raises:
        TaskError: the reference has no class ``Model``.
        NoRecipe: a constant of the reference is not at hand.
    """
    module, arguments = strip(source)
    writer = _Forward(program, arguments)
    body = writer.write(parts, kernels)
    head, tail = split_imports(fill(module, body))
    rendered = "\n\n\n".join(kernel.text.strip() for kernel in kernels.values())
    constants = [f"{name} = {value}" for name, value in writer.constants.items()]
    own = "\n\n\n".join([*needed(f"{rendered}\n{tail}"), rendered])
    begin = opening(own, head)
    if "from __future__ import annotations" in source:
        begin = ["from __future__ import annotations", "", *begin]  # it must come first
    blocks = ["\n".join([*begin, *head]), own, "\n".join(constants), tail]
    return "\n\n\n".join(block for block in blocks if block).rstrip() + "\n"


def opening(own: str, head: list[str]) -> list[str]:
    """Return the imports that the kernels need and the reference does not make itself."""
    lines = ["import torch", "import triton", "import triton.language as tl"]
    if "weakref" in mentioned(own):
        lines = ["import weakref", "", *lines]
    if "load_cuda" in mentioned(own):
        lines += ["", "from kb.native import load_cuda"]
    return [line for line in lines if line not in head or not line]


class _Forward(Forward):
    """Writes a forward whose kernels take tensors and return them."""

    def kernel(self, part: Segment, kernel: RenderedSegment) -> list[str]:
        """Return the statements that call a kernel's host function."""
        results = ", ".join(self.text(name) for name in part.outputs)
        given = ", ".join(self._given(name) for name in part.inputs) or self.arguments[0]
        return [
            f"# {kernel.note}",
            *self._settled(part),
            f"({results},) = {kernel.name}({given})",
        ]

    def _given(self, name: str) -> str:
        """Return a kernel's operand; a parameter may have been made as a strided view."""
        base = self._program.base(name)
        owned = self.values[base].kind in ("parameter", "buffer") if base in self.values else False
        return f"{self.text(name)}.contiguous()" if owned else self.text(name)

    def reshaped(self, text: str, shape: Shape, wanted: Shape) -> str:
        """Return the expression of a view; sizes that the tensor has are read from it."""
        steps, free = contiguous(shape), True
        found: list[str] = []
        for size, step in zip(wanted, contiguous(wanted), strict=True):
            dims = [
                f"{text}.shape[{at}]"
                for at in range(len(shape))
                if shape[at] > 1 and steps[at] >= step and steps[at] * shape[at] <= step * size
            ]
            product = 1
            for at in range(len(shape)):
                if f"{text}.shape[{at}]" in dims:
                    product *= shape[at]
            if size == 1:
                found.append("1")
            elif product == size:
                found.append(" * ".join(dims))
            elif free:
                # One size that is only a part of the tensor's follows from the others.
                found.append("-1")
                free = False
            else:
                found.append(str(size))
        return f"{text}.reshape({', '.join(found)})" if found else f"{text}.reshape(())"

    def constant(self, name: str) -> str:
        """Return the constant on the device of the first input."""
        return f"_on({self.arguments[0]}, {name})" if self.arguments else name
