"""Candidates that begin with what torch.compile writes, whole or with parts done by recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from kb.errors import TaskError
from kb.records.schema import TargetRecord
from search.codegen.inductor import Captured, Uncaptured
from search.codegen.inductor.candidate import Native, write
from search.codegen.inductor.out_of_place import out_of_place
from search.codegen.inductor.process import Device, capture
from search.codegen.inductor.stubs import stubbed
from search.codegen.lower import is_view, lower, packet
from search.codegen.module_writer import loaded, native_source
from search.codegen.plan import LEAST_OWN, Choice, Composer, Plan, launches, launching, own_share
from search.codegen.render import Unfit, prelude
from search.costs.graph import OperatorGraph
from search.costs.work import least_seconds, operator_costs

_MOST_READ = 60  # tensors of an operator: torch takes 64 arguments and results
_LAUNCH = re.compile(r"\.run\(|extern_kernels\.|torch\.ops\.")


class CompilerSeed:
    """Renders plans whose parts without a recipe are compiled by Inductor.

    Such a plan has, beside `library` and `segments`, ``compiler``: True, and ``whole``: the operators that
    no recipe does.

    Args:
        shop: of the task.
        source: text of the reference.
        graph: of the reference.
        device: a GPU; a processor where it is None.
        here: it is judged on this machine; Inductor writes C++ for the processor that it runs on.
    """

    def __init__(
        self,
        shop: Composer,
        source: str,
        graph: OperatorGraph,
        device: Device | None = None,
        *,
        here: bool = True,
    ) -> None:
        self._here = here
        self.shop = shop
        self._device = device
        self._source = source
        self._given = graph
        self._shops: dict[frozenset[str], Composer] = {}

    @cached_property
    def _graph(self) -> OperatorGraph:
        return out_of_place(self._given)

    @cached_property
    def _alone(self) -> str:
        """Inductor's code for all of the reference, as a candidate; to write it takes seconds for a large network."""
        return write(self._source, capture(self._source, device=self._device))

    @cached_property
    def refusal(self) -> str:
        """Why no candidate can be made of what torch.compile writes; empty where one can."""
        if self._device is None and not self._here:
            return "it is judged elsewhere, and its C++ is for the processor of this machine"
        try:
            found, _ = capture(self._source, device=self._device), self._alone
        except (Uncaptured, TaskError) as error:
            return str(error)
        if not self.shop.library and (
            "extern_kernels." in found.code or "torch.ops." in found.code
        ):
            return "it calls the library, which the task forbids"
        if not re.search(r"= async_compile\.\w+\(", found.code):
            return "it has no kernel of its own: all is the library's"
        return ""

    @cached_property
    def beside(self) -> str:
        """Why torch.compile's code alone would be refused: the library does next to all of its work; empty where not."""
        if (
            self._device is None
        ):  # a processor's code is timed whole, and was never refused for that
            return ""
        if "extern_kernels." not in capture(self._source, device=self._device).code:
            return ""
        own = own_share(self._graph, self.plan({}))
        if own >= LEAST_OWN:
            return ""
        return (
            f"{own:.1%} of its work is its own, the rest the library's: it would pass for a decoy"
        )

    @cached_property
    def launches(self) -> int:
        """How many kernels a call of torch.compile's code launches at least: a call of the library counts as one."""
        called = capture(self._source, device=self._device).code.partition("def call(")[2]
        return len(_LAUNCH.findall(called))

    def expected(self, plan: Plan, speed: float, target: TargetRecord) -> float:
        """Return the speed over torch.compile's code of a plan for a GPU whose work has `speed`: where there is little to do, launches decide."""
        if self.refusal or plan.get("compiler"):
            return speed
        busy = least_seconds(self._given, target.peak, target.bandwidth)
        return (busy + launching(self.launches)) / (busy / speed + launching(launches(plan)))

    def plan(self, choices: Mapping[str, Choice], library: Iterable[str] = ()) -> dict[str, Any]:
        """Return the plan in which recipes do the chosen segments, and Inductor's code the rest.

        Args:
            choices: recipes and knobs by segment of the task's own graph; none for Inductor's code alone.
            library: products and convolutions that stay the library's in the cut which has these segments.

        Raises:
            NoRecipe: a part that is cut off by the choice has no recipe.
        """
        if not choices:
            return {"library": [], "segments": {}, "compiler": True, "whole": []}
        cuts = (part for kept in (self.shop.anchors, (), library) for part in self.shop.cut(kept))
        parts = {part.id: part for part in cuts if part.id in choices}
        whole = self._left(frozenset[str]().union(*map(self.shop.of, parts.values())))
        shop = self._reduced(whole)
        kept = set(shop.anchors).difference(*(part.anchors for part in parts.values()))
        return {**shop.complete(kept, choices), "compiler": True, "whole": sorted(whole)}

    def shares(self) -> Mapping[str, float]:
        """Return each operator's share of what the reference costs, by count."""
        costs = operator_costs(self._graph)
        total = sum(costs.values()) or 1.0
        return {name: cost / total for name, cost in costs.items()}

    def source(self, plan: Plan) -> str:
        """Return the candidate that `plan` describes.

        Raises:
            Unfit: a recipe does not suit its segment, or Inductor's code for the rest is not read.
        """
        try:
            if not plan["segments"]:
                return self._alone
            return self._mixed(plan)
        except Uncaptured as error:
            raise Unfit(str(error)) from error

    def _mixed(self, plan: Plan) -> str:
        shop = self._reduced(frozenset(plan["whole"]))
        parts = shop.cut(plan["library"])
        kernels, flags = shop.rendered(plan)
        if any(part.id in kernels and not part.inputs for part in parts):
            raise Unfit("the compiler needs a tensor to call a kernel with, and one reads nothing")
        most = max((len(part.inputs) for part in parts if part.id in kernels), default=0)
        if most > _MOST_READ:
            raise Unfit(
                f"a kernel reads {most} tensors, and the compiler calls one with {_MOST_READ} at most"
            )
        text, stubs, constants = stubbed(self._source, shop.program, parts, kernels)
        found: Captured = capture(self._source, text, stubs, self._device)
        gpu = shop.program.symbolic
        if gpu and constants:
            raise Unfit("a constant would have to be moved to the device at each call")
        written = "\n\n\n".join(kernel.text.strip() for kernel in kernels.values())
        native = Native(
            source=written if gpu else native_source(parts, kernels, prelude()),
            loading=() if gpu else tuple(loaded(kernels, flags)),
            constants=constants,
            writes={stub["name"]: stub["writes"] for stub in stubs},
            notes={kernel.name: kernel.note for kernel in kernels.values()},
        )
        return write(self._source, found, native)

    def _left(self, covered: frozenset[str]) -> frozenset[str]:
        """Return the operators of the reference that none of `covered` belongs to."""
        names = {operator.name for operator in self.shop.program.graph.operators}
        program = self.shop.program
        taken = set(covered)
        for name in covered & names:
            taken |= {dict(program.operators[name].kwargs).get("whole", name)}
        own = {operator.name for operator in self._graph.operators}
        # Nothing is computed by what has no node, as dropout that drops nothing: it may lie inside a part.
        idle = names - {node.operator for node in program.nodes.values()}
        # Parts of an operator bear its name; of operators whose names begin alike, the longest is meant.
        for part in covered - names:
            wholes = [name for name in own if part.startswith(f"{name}_")]
            taken |= {max(wholes, key=len)} if wholes else set()
        return frozenset(
            operator.name
            for operator in self._graph.operators
            if operator.name not in taken | idle
            and not is_view(operator)
            # What writes in place is written out of place.
            and not packet(operator.target).endswith("_")
        )

    def _reduced(self, whole: frozenset[str]) -> Composer:
        """Return the workshop in which the operators of `whole` are nobody's to fuse."""
        if whole not in self._shops:
            symbolic = self.shop.program.symbolic
            self._shops[whole] = self.shop.over(lower(self._graph, symbolic=symbolic, whole=whole))
        return self._shops[whole]
