from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from search.profilers.vectorization import Verbose, look, missed_loops, parse_report
from search.sandbox.build import Builder
from search.sandbox.zygote import Zygote

KERNEL = """#include <cmath>
extern "C" void f(const float* x, float* y, const int* idx, long n, long m) {
  for (long i = 0; i < n; i++) {
    float s = 0;
    for (long j = 0; j < m; j++)
      s += x[i * m + j];
    for (long j = 1; j < m; j++)
      y[j] = y[j - 1] * x[j];
    for (long j = 0; j < m && x[j] > 0; j++)
      y[j] = 2 + s;
  }
}
"""
SOURCE = f'''
from kb.native import load_cpp
KERNEL = """{KERNEL}"""
library = load_cpp(KERNEL, "-ffast-math")
'''


def report(tmp_path: Path, *flags: str, kernel: str = KERNEL) -> str:
    (tmp_path / "kernel.cpp").write_text(kernel)
    subprocess.run(
        [
            "g++",
            "-O3",
            "-march=native",
            "-c",
            *flags,
            "-fopt-info-vec-missed-optimized=r.txt",
            "kernel.cpp",
        ],
        cwd=tmp_path,
        check=True,
    )
    return (tmp_path / "r.txt").read_text()


def test_a_recurrence_and_an_early_exit_are_missed_and_outer_loops_left_out(tmp_path: Path) -> None:
    found = {
        missed.line: missed for missed in parse_report(report(tmp_path, "-ffast-math"), KERNEL)
    }
    assert set(found) == {7, 9}
    assert found[7].symptom == "serial-reduction"
    assert found[9].code.startswith("for (long j = 0; j < m && x[j] > 0")
    assert found[9].symptom == "branch-divergence"


BY_HAND = """typedef float vec __attribute__((vector_size(32)));
typedef float vecu __attribute__((vector_size(32), aligned(4)));
static inline vec load(const float* p) { return *(const vecu*)p; }
static inline float fold(vec a) { float s = 0; for (int i = 0; i < 8; ++i) s += a[i]; return s; }
extern "C" void f(const float* x, float* y, const float* w, long n, long m) {
  for (long i = 0; i < n; i++) {
    vec a = {};
    for (long j = 0; j < m; j += 8) {
      a += load(x + i * m + j) * w[i];
    }
    y[i] = fold(a);
  }
  for (long i = 0; i < n; ++i) {
    const float s = w[i];
    for (long j = 0; j < m; j += 8)
      *(vecu*)(y + i * m + j) = s * load(x + i * m + j);
  }
  for (long j = 1; j < m; j++)
    y[j] = y[j - 1] * x[j];
}
"""


def test_what_is_written_in_vectors_is_vectorised_and_so_is_what_is_around_it(
    tmp_path: Path,
) -> None:
    found = parse_report(report(tmp_path, kernel=BY_HAND), BY_HAND)
    assert [missed.code for missed in found] == ["for (long j = 1; j < m; j++)"]


def test_a_loop_that_was_vectorised_is_no_finding(tmp_path: Path) -> None:
    assert 5 not in {one.line for one in parse_report(report(tmp_path, "-ffast-math"), KERNEL)}


@pytest.mark.slow
def test_the_report_of_a_candidate_is_made_behind_the_builders_walls(tmp_path: Path) -> None:
    zygote = Zygote()
    try:
        builder = Builder(zygote, Verbose(), tmp_path, 30)
        found = missed_loops(builder, SOURCE)
        told = look(builder, SOURCE)
    finally:
        zygote.close()
    assert {missed.line for missed in found} == {7, 9}
    assert {finding.symptom for finding in told.findings} == {
        "serial-reduction",
        "branch-divergence",
    }
    assert (
        "Line 7 of the C++ source, `for (long j = 1; j < m; j++)`, is not" in told.findings[0].text
    )


@pytest.mark.parametrize(
    "text", ["", "nonsense\n", "kernel.cpp:99:1: missed: couldn't vectorize loop\n"]
)
def test_what_is_no_report_has_no_findings(text: str) -> None:
    assert parse_report(text, KERNEL) == ()


@pytest.mark.slow
@pytest.mark.parametrize("word", ["typedef ", "using a "])
def test_a_million_letters_that_begin_a_vector_type_take_no_hour(word: str) -> None:
    lines = [*KERNEL.splitlines(), "// " + word * (1_000_000 // len(word))]
    report = "kernel.cpp:1:1: missed: couldn't vectorize loop\n"
    assert parse_report(report, "\n".join(lines)) is not None
