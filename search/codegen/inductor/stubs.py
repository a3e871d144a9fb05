"""The program that Inductor compiles around kernels of recipes: each is an operator that it cannot look into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search.codegen.lower import LoweredProgram
from search.codegen.module_writer import Forward, RenderedSegment, fill, strip
from search.codegen.segments import Segment


def stubbed(
    source: str,
    program: LoweredProgram,
    parts: tuple[Segment, ...],
    kernels: Mapping[str, RenderedSegment],
) -> tuple[str, list[dict[str, Any]], Mapping[str, str]]:
    """Return the program's file, its operators of the namespace ``kb``, and its constants as texts.

    Args:
        source: text of the reference.
        parts, kernels: the segments, and those of them that are kernels.
    """
    module, arguments = strip(source)
    writer = _Stubbed(program, arguments)
    body = writer.write(parts, kernels)
    stubs = [
        {
            "name": kernels[part.id].name,
            "reads": len(part.inputs),
            "writes": [
                [list(program.nodes[name].shape), program.nodes[name].dtype]
                for name in part.outputs
            ],
        }
        for part in parts
        if part.id in kernels
    ]
    constants = [f"{name} = {value}" for name, value in writer.constants.items()]
    future = "from __future__ import annotations"
    opening = [future] if future in source else []
    text = "\n".join([*opening, "import torch", *constants, fill(module, body)])
    return text, stubs, writer.constants


class _Stubbed(Forward):
    """Writes a forward that calls an operator where the candidate calls a kernel."""

    def kernel(self, part: Segment, kernel: RenderedSegment) -> list[str]:
        """Return the statements that call the operator."""
        given = ", ".join(self.text(name) for name in part.inputs)
        results = ", ".join(self.text(name) for name in part.outputs)
        return [
            *self._settled(part),
            f"{results}, = torch.ops.kb.{kernel.name}({given})",
        ]
