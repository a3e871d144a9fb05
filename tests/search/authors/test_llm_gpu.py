"""What a model is told when the task is for a GPU: that target's figures, that language's rules."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.patterns import load_patterns
from kb.records.schema import Document, TargetRecord
from kb.records.types import Answer, Hit, Query
from kb.retrieval.multi_query import Inquiry
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.authors.llm import LanguageModel
from search.costs.graph import Work
from search.outcome import BuildFailed
from search.task import TaskFile, load_task
from synth.models import Reply, Request

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

DOCUMENTS = load_library(shipped_docs())
TASK = load_task(Path(__file__).parents[3] / "examples" / "conv2d.yaml")
WORK = Work(flops=8.4e8, bytes=6e6, traffic=3e7, families=("convolution", "pooling"))
IDEA = Idea(title="Fuse the pooling", text="Pool in registers.", category="memory access")
MOMENT = Moment(
    round=0,
    seed=1,
    parent=None,
    history=(),
    diagnosis=Diagnosis(symptoms=("memory-bound",), lines=("Memory-bound.",)),
)


class Records:
    def document(self, kind: str, name: str) -> Document | None:
        return next((one for one in self.documents(kind) if one.name == name), None)

    def documents(self, kind: str) -> list[Document]:
        return [one for one in DOCUMENTS if one.record.kind == kind]


class Nothing:
    def search(self, query: Query) -> Sequence[Hit]:
        return []

    def inquire(self, inquiry: Inquiry) -> Answer:
        return Answer(hits=())


class Knowledge:
    retriever = Nothing()
    store = Records()
    known = None
    readings = None
    patterns = staticmethod(load_patterns)


class Listener:
    name = "listener"

    def __init__(self) -> None:
        self.prompt = ""

    def reply(self, request: Request) -> Reply:
        self.prompt = request.messages[-1].content
        idea = {"title": IDEA.title, "category": IDEA.category, "text": IDEA.text, "passages": []}
        source = "```python\nimport torch\nclass ModelNew(torch.nn.Module):\n    pass\n```"
        text = json.dumps({"ideas": [idea]}) if request.schema else source
        return Reply(
            text=text, model=self.name, finish="stop", tokens_in=1, tokens_out=1, seconds=0.0
        )


def prompts(language: str, target: str = "h200") -> dict[str, str]:
    """Return the prompt of each purpose."""
    task = replace(TASK, settings=TaskFile(reference="x.py", language=language, target=target))
    record = next(one.record for one in DOCUMENTS if one.name == target)
    assert isinstance(record, TargetRecord)
    listener = Listener()
    author = LanguageModel(task, record, WORK, Knowledge(), listener)  # type: ignore[arg-type]
    found = {}
    author.ideas(MOMENT, 2)
    found["ideas"] = listener.prompt
    author.draft(MOMENT, IDEA, 0, ())
    found["draft"] = listener.prompt
    failed = Attempt(
        number=1, parent=None, round=0, branch=0, idea=IDEA, draft=Draft(source="class ModelNew: 1"),
        outcome=BuildFailed(reason="it does not compile: kernel.cu line 3: expected a ';'"),
    )  # fmt: skip
    author.repair(MOMENT, failed)
    found["repair"] = listener.prompt
    return found


@pytest.mark.parametrize(
    ("language", "name", "skeleton"),
    [
        ("cuda", "CUDA C++ on NVIDIA GPUs (cuda)", "kernels = load_cuda(CUDA_SOURCE"),
        ("triton", "Triton on NVIDIA and AMD GPUs (triton)", "@triton.jit"),
        ("cute", "CuTe DSL on NVIDIA GPUs (cute)", "@cute.kernel"),
    ],
)
def test_every_prompt_shows_how_an_answer_in_its_language_is_written(
    language: str, name: str, skeleton: str
) -> None:
    for purpose, prompt in prompts(language).items():
        for piece in (
            f"Kernels are written in: {name}",
            skeleton,
            "NVIDIA H200",
            "shared memory per block",
            "constraints/timing-gpu",
            "constraints/answer-parts-gpu",
        ):
            assert piece in prompt, (purpose, piece)


@pytest.mark.parametrize("language", ["cuda", "triton", "cute"])
def test_no_prompt_for_a_gpu_speaks_of_the_cpus_compiler_or_clock(language: str) -> None:
    for purpose, prompt in prompts(language).items():
        for piece in ("load_cpp", "OpenMP", "On the CPU the answer runs on one thread"):
            assert piece not in prompt, (purpose, piece)


@pytest.mark.parametrize("language", ["cuda", "triton", "cute"])
def test_the_rules_are_quoted_whole_and_do_not_read_as_orders_to_their_reader(
    language: str,
) -> None:
    for prompt in prompts(language).values():
        assert "Caution" not in prompt
        assert "lines left out" not in prompt


def test_left_to_itself_the_first_language_of_the_target_is_used() -> None:
    assert "(triton)" in prompts("auto")["draft"]
    assert "gfx942" not in prompts("auto")["draft"]
    assert "(triton)" in prompts("auto", "mi300x")["draft"]
