import importlib.util
from pathlib import Path

import pytest

from search.languages import LANGUAGES
from search.languages.triton import Triton


def test_the_language_is_registered() -> None:
    assert isinstance(LANGUAGES.create("triton", "sm_90"), Triton)


def test_a_candidate_of_triton_alone_has_nothing_to_build_beforehand() -> None:
    source = "import triton\n@triton.jit\ndef k(x):\n    pass\n"
    assert Triton("sm_90").units(source) == ()


def test_cuda_beside_triton_is_built_beforehand() -> None:
    source = (
        "import triton\nfrom kb.native import load_cuda\nM = load_cuda('__global__ void k() {}')"
    )
    (unit,) = Triton("sm_90").units(source)
    assert unit.output == "kernel.cubin"


def test_a_compilation_error_is_cut_to_its_message_and_line() -> None:
    message = (
        "at 4:8:\ndef k4(p, n, B: tl.constexpr):\n    i = tl.arange(0, 64)\n    j = tl.arange(0, 32)\n"
        "    a = tl.load(p + i) + tl.load(p + j)\n        ^\n"
        "ValueError('Cannot make_shape_compatible: incompatible dimensions at index 0: 64 and 32')"
    )
    assert Triton("sm_90").explain(message) == (
        "ValueError('Cannot make_shape_compatible: incompatible dimensions at index 0: 64 and 32') "
        "in: a = tl.load(p + i) + tl.load(p + j)"
    )


def test_a_fault_in_a_called_function_is_told_for_both_the_cause_first() -> None:
    message = (
        "at 3:8:\ndef k2(p):\n    i = 0\n    x = helper(p)\n        ^\n\n"
        "at 2:12:\ndef helper(x):\n    y = x + nope\n            ^\nNameError('nope is not defined')"
    )
    assert Triton("sm_90").explain(message).splitlines() == [
        "NameError('nope is not defined') in: y = x + nope",
        "this call fails in: x = helper(p)",
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "out of resource: shared memory, Required: 294912, Hardware limit: 232448. Reducing block sizes or "
            "`num_stages` may help.",
            "out of resource: shared memory, Required: 294912",
        ),
        (
            "PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas /tmp/t.ptx, line 41; error   : "
            "Not a name of any known instruction: 'bogus'\nptxas fatal   : Ptx assembly aborted due to errors\n\n"
            "Repro command: ptxas -v",
            "ptxas: Not a name of any known instruction: 'bogus'",
        ),
        (
            "candidate.py:12:20: error: failed to legalize operation 'tt.dot'\nRuntimeError: PassManager::run failed",
            "line 12: failed to legalize operation 'tt.dot'",
        ),
        ("kernel.cu(3): error: expected a ';'", "kernel.cu line 3: expected a ';'"),
        ("what nobody knows\nsecond", "what nobody knows"),
    ],
)
def test_messages_of_the_stages_behind_are_cut_to_the_fault(message: str, told: str) -> None:
    assert Triton("sm_90").explain(message).startswith(told)


def test_a_real_fault_is_told_as_a_build_that_failed_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError

    from search.outcome import BuildFailed
    from search.sandbox.faults import raised
    from search.sandbox.runner import describe

    path = tmp_path / "written.py"
    path.write_text(
        "import triton\nimport triton.language as tl\n"
        "@triton.jit\ndef helper(i):\n    return i + tl.arange(0, 100)\n"
        "@triton.jit\ndef k(p, B: tl.constexpr):\n    i = helper(tl.program_id(0))\n    tl.store(p + i, 1.0)\n"
    )
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = ASTSource(module.k, signature={"p": "*fp32", "B": "constexpr"}, constexprs={(1,): 64})
    with pytest.raises(CompilationError) as caught:
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    outcome = raised(describe(caught.value), "forward")
    assert isinstance(outcome, BuildFailed)
    assert outcome.reason == (
        "a kernel of it does not compile: arange's range must be a power of 2 in: return i + tl.arange(0, 100)"
    )
    assert "this call fails in: i = helper(tl.program_id(0))" in outcome.detail
