"""Kernels for a task's own sizes compile for GPUs that are not here, and are right on smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_bench import candidates, problem_of, triton_cards, workshop

from kb.config import shipped_docs
from kb.records.schema import TargetRecord, parse_record
from search.codegen.library import RecipeCard
from search.judging.dryrun.architecture import Architecture, architecture_of
from search.judging.dryrun.check import Built, DryCheck
from search.judging.dryrun.session import Answers
from search.judging.limits import Limits
from search.sandbox.fork_server import DRY
from search.sandbox.zygote import Zygote

PROGRAM = """import torch, torch.nn as nn, torch.nn.functional as F

{sizes}

class Model(nn.Module):
    def __init__(self, {names}):
        super().__init__()
        {init}

    def forward(self, a):
        {body}

def get_inputs():
    return [{input}]

def get_init_inputs():
    return [{names}]
"""


def program(body: str, given: str, init: str = "pass", **sizes: int) -> str:
    """Return a reference whose sizes are constants of the module, as a user writes it."""
    return PROGRAM.format(
        sizes="\n".join(f"{name} = {value}" for name, value in sizes.items()),
        names=", ".join(sizes),
        init=init,
        body=body.replace("\n", "\n        "),
        input=given,
    )


TASKS = {
    "rows": program("return torch.softmax(a, -1)", "torch.randn(N, C)", N=512, C=9000),
    "channels": program(
        "return a / torch.sqrt(torch.mean(a ** 2, dim=1, keepdim=True) + 1e-5)",
        "torch.randn(N, C, H, W)",
        N=4, C=48, H=64, W=65,
    ),
    "groups": program(
        "return F.relu(self.n(a))",
        "torch.randn(N, C, H, H)",
        "self.n = nn.GroupNorm(8, C)",
        N=4, C=32, H=65,
    ),
    "columns": program("return a.sum(1)", "torch.randn(N, M, C)", N=4, M=3000, C=100),
    "pooled": program(
        "return F.max_pool2d(F.relu(a), 3, 2, 1) * self.s",
        "torch.randn(N, C, H, W)",
        "self.s = nn.Parameter(torch.randn(C, 1, 1))",
        N=4, C=32, H=64, W=65,
    ),
    "scan": program("return torch.cumsum(a * 2, 1) + 1", "torch.randn(N, C)", N=4, C=30000),
    "running maximum from the end": program(
        "return torch.cummax(a, 1)[0]", "torch.randn(N, C)", N=70, C=3000
    ),
    "sum from the end": program(
        "return a.flip(1).cumsum(1).flip(1)", "torch.randn(N, C)", N=70, C=3000
    ),
    "lines": program(
        "return F.relu(self.c(a))",
        "torch.randn(N, C, L)",
        "self.c = nn.Conv1d(C, 64, 3, padding=1)",
        N=4, C=32, L=500,
    ),
    "volumes": program(
        "return F.relu(self.c(a))",
        "torch.randn(N, C, D, H, H)",
        "self.c = nn.Conv3d(C, 32, 3)",
        N=2, C=16, D=8, H=33,
    ),
    "transposed": program(
        "return self.c(a) * 2",
        "torch.randn(N, C, H, W)",
        "self.c = nn.ConvTranspose2d(C, 48, 3, 2, 1, 1)",
        N=4, C=32, H=40, W=33,
    ),
    "recurrent": program(
        "return self.r(a)[0]",
        "torch.randn(T, N, C)",
        "self.r = nn.GRU(C, 80)",
        T=12, N=40, C=24,
    ),
    "chain": program(
        "return F.gelu(a + self.b) * a", "torch.randn(N, C)",
        "self.b = nn.Parameter(torch.randn(C))",
        N=500, C=1000,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    warm = Zygote(DRY)
    yield warm
    warm.close()


@pytest.fixture(scope="module")
def architectures() -> list[Architecture]:
    found = []
    for name in ("nvidia/h200", "amd/mi300x"):
        path = shipped_docs() / "targets" / f"{name}.md"
        record = parse_record(path.read_text(encoding="utf-8"), path.name).record
        assert isinstance(record, TargetRecord)
        found.append(architecture_of(record))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TASKS))
def test_a_kernel_reads_its_sizes_at_run_time(
    name: str,
    cards: dict[str, RecipeCard],
    zygote: Zygote,
    architectures: list[Architecture],
    tmp_path: Path,
) -> None:
    problem = problem_of(TASKS[name], tmp_path)
    portable = {key: card for key, card in triton_cards(cards).items() if not card.scope.vendor}
    shop = workshop(TASKS[name], problem, portable)
    desk = DryCheck(problem, seed=1, folder=tmp_path / "desk", limits=Limits(), zygote=zygote)
    desk.prepare(lambda _: None)
    for recipe, source in candidates(shop).items():
        finding = desk.examine(source, architectures)
        assert all(isinstance(built, Built) for built in finding.built.values()), finding.built
        assert isinstance(finding.answers, Answers), (recipe, finding.answers)
        assert finding.answers.unchecked == "", recipe
    desk.close()
