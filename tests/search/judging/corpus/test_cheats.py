"""Cheats that are short enough to stand here; those of the corpus are judged in `test_corpus.py`."""

from collections.abc import Callable

import pytest

from search.judging.cpu.judge import CpuJudge

RELU = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(64, 64)]
"""


def test_handing_the_input_back_fails_where_the_tasks_own_inputs_would_let_it_pass(
    make_judge: Callable[..., CpuJudge],
) -> None:
    judge = make_judge(RELU)
    outcome = judge.judge(
        "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x): return x.clone()\n"
    )
    assert outcome.kind == "wrong"
    assert "it is input 0" in outcome.detail or "'task'" not in outcome.reason


MATMUL = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(160, 160), torch.rand(160, 160)]
"""
DECOY = """
import ctypes
import torch
import torch.nn as nn
from kb.native import load_cpp
K = load_cpp('extern "C" void decoy(float *x, long n) { for (long i = 0; i < n; i++) x[i] *= 1.0f; }')
class ModelNew(nn.Module):
    def forward(self, a, b):
        y = a @ b
        K.decoy(ctypes.c_void_p(y.data_ptr()), ctypes.c_long(160))
        return y
"""
OWN = """
import ctypes
import torch
import torch.nn as nn
from kb.native import load_cpp
K = load_cpp(r'''
extern "C" void mm(const float *a, const float *b, float *c, long m, long n, long k) {
  for (long i = 0; i < m; i++) {
    float *row = c + i * n;
    for (long j = 0; j < n; j++) row[j] = 0;
    for (long p = 0; p < k; p++)
      for (long j = 0; j < n; j++) row[j] += a[i * k + p] * b[p * n + j];
  }
}''')
class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty(a.shape[0], b.shape[1])
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, y)]
        K.mm(*pointers, *map(ctypes.c_long, (a.shape[0], b.shape[1], a.shape[1])))
        return y
"""


@pytest.fixture(scope="module")
def forbidden(make_judge: Callable[..., CpuJudge]) -> CpuJudge:
    return make_judge(MATMUL, library="forbidden")


@pytest.mark.slow
def test_a_decoy_kernel_beside_the_librarys_is_found_out(forbidden: CpuJudge) -> None:
    outcome = forbidden.judge(DECOY)
    assert outcome.kind == "refused", outcome
    assert outcome.trick == "library-call"


def test_a_kernel_of_its_own_is_seen_to_be_its_own(forbidden: CpuJudge) -> None:
    outcome = forbidden.judge(OWN)
    assert outcome.kind == "passed", outcome
    assert outcome.own_share is not None
    assert outcome.own_share > 0.8


@pytest.mark.slow
def test_the_library_is_allowed_unless_it_is_forbidden(make_judge: Callable[..., CpuJudge]) -> None:
    outcome = make_judge(MATMUL).judge(DECOY)
    assert outcome.kind == "passed", outcome
    assert outcome.own_share is not None
    assert outcome.own_share < 0.5


def test_a_candidate_that_is_not_python_is_told_the_line(norm: CpuJudge) -> None:
    outcome = norm.judge("import torch\ndef broken(:\n")
    assert outcome.kind == "build_failed"
    assert "line 2" in outcome.reason


TWO_FACED = OWN.replace("class ModelNew", "import gc\nclass ModelNew").replace(
    "        y = torch.empty",
    "        if not gc.isenabled():\n            return a @ b\n        y = torch.empty",
)


def test_calling_the_library_in_timed_calls_only_is_found_out(forbidden: CpuJudge) -> None:
    outcome = forbidden.judge(TWO_FACED)
    assert outcome.kind == "refused", outcome
    assert outcome.trick == "library-call"
