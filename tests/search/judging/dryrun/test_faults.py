"""Kernels that are broken, each in one way: the dry run names the fault, and outlives it."""

from __future__ import annotations

from typing import Any

import pytest

from search.judging.dryrun.check import Built, DryCheck, DryFinding
from search.judging.limits import Limits
from search.outcome import BuildFailed, Crashed, Refused, TimedOut, Wrong
from search.sandbox.faults import Fault

HEAD = """
import torch
import triton
import triton.language as tl
from torch import nn
"""
SCALE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1

def get_inputs():
    return [torch.randn(1000, 77)]
"""
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
"""
GOOD = """
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * 2 + 1, mask=i < n)
"""


@pytest.fixture(scope="module")
def desk(make_desk) -> DryCheck:
    return make_desk(SCALE, Limits(call_seconds=0.7, memory=2 << 30))


@pytest.fixture
def examine(desk, architectures):
    def run(body: str, name: str = "sm_90") -> tuple[Any, Any]:
        finding: DryFinding = desk.examine(HEAD + body, (architectures[name],))
        built = finding.built[name]
        answers = finding.answers
        return (
            built.outcome if isinstance(built, Fault) else built,
            answers.outcome if isinstance(answers, Fault) else answers,
        )

    return run


@pytest.mark.slow
def test_the_kernel_that_the_others_are_made_from_is_right(examine):
    built, answers = examine(GOOD + MODEL)
    assert isinstance(built, Built)
    assert answers.unchecked == ""
    assert answers.max_error <= answers.allowed_error


def test_a_load_without_a_mask_is_named_with_lane_and_program(examine):
    body = GOOD.replace("tl.load(x + i, mask=i < n)", "tl.load(x + i)")
    built, _ = examine(body + MODEL)
    assert isinstance(built, Crashed)
    # 77,000 elements are 75 blocks and 200 lanes.
    assert "kernel scale, program (75, 0, 0)" in built.reason
    assert "reads out of bounds: 824 of 1024 active lanes, first lane 200" in built.reason
    assert "element 77000 of argument x" in built.reason
    assert "line 10" in built.reason


def test_a_store_without_a_mask_is_a_fault_and_not_a_signal(examine):
    body = GOOD.replace("v * 2 + 1, mask=i < n", "v * 2 + 1")
    built, _ = examine(body + MODEL)
    assert isinstance(built, Crashed)
    assert built.signal is None
    assert "writes out of bounds" in built.reason
    assert "of argument out" in built.reason


def test_all_names_that_triton_lacks_are_told_at_once(examine):
    body = GOOD.replace(
        "tl.load(x + i, mask=i < n)", "tl.maximun(tl.load(x + i, mask=i < n), tl.sqroot(1.0))"
    )
    built, _ = examine(body + MODEL)
    assert isinstance(built, BuildFailed)
    assert "tl.maximun (there is maximum" in built.reason
    assert "tl.sqroot (there is sqrt" in built.reason


def test_programs_that_write_one_place_differently_race(examine):
    body = GOOD.replace("out + i, v * 2 + 1", "out + i // 2, v * 2 + 1 + tl.program_id(0)")
    _, answers = examine(body + MODEL)
    assert isinstance(answers, Crashed)
    assert "write different values to one place" in answers.reason


RACE = """
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * 2 + 1 + tl.program_id(0) * 0.001, mask=i < n)
"""
SHIFT = """
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * 2 + 1, mask=i < n)
    after = tl.load(out + i + 1, mask=i + 1 < n)
    tl.store(out + i, after, mask=i + 1 < n)
"""


def test_overlapping_tiles_race(examine):
    _, answers = examine(RACE + MODEL)
    assert isinstance(answers, Crashed)
    assert "writes other values where program number 0 has written" in answers.reason


def test_reading_a_neighbours_result_races(examine):
    _, answers = examine(SHIFT + MODEL)
    assert isinstance(answers, Crashed)
    assert "in the same launch" in answers.reason
    assert "run in any order" in answers.reason


def test_a_wrong_answer_is_wrong_with_its_elements(examine):
    _, answers = examine(GOOD.replace("v * 2 + 1", "v * 2 + 2") + MODEL)
    assert isinstance(answers, Wrong)
    assert "differs from the reference" in answers.reason


def test_a_compile_error_has_the_line_of_the_file(examine):
    built, _ = examine(GOOD.replace("v * 2 + 1", "tl.no_such_function(v)") + MODEL)
    assert isinstance(built, BuildFailed)
    source = HEAD + GOOD.replace("v * 2 + 1", "tl.no_such_function(v)")
    number = next(n for n, line in enumerate(source.splitlines(), 1) if "no_such" in line)
    assert f"line {number}:" in built.reason
    assert "no_such_function" in built.reason


def test_python_that_does_not_parse_fails_to_build(examine):
    built, _ = examine("def (")
    assert isinstance(built, BuildFailed)


@pytest.mark.slow
def test_too_much_shared_memory_does_not_fit(examine):
    body = """
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, 256)[:, None] * 256 + tl.arange(0, 256)[None, :]
    total = tl.zeros((256, 256), tl.float32)
    for _ in range(0, n, 65536):
        total = tl.dot(tl.load(x + i % n), tl.load(out + i % n), total)
    tl.store(out + i, total, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale[(1,)](x, out, x.numel(), BLOCK=1, num_stages=4, num_warps=8)
        return out
"""
    built, _ = examine(body, "sm_89")
    assert isinstance(built, BuildFailed)
    assert "shared memory" in built.reason
    assert "101376" in built.reason


@pytest.mark.slow
def test_spills_are_counted(examine):
    body = GOOD.replace("v * 2 + 1", "v * 2 + 1 + 0 * tl.sum(v)") + MODEL.replace(
        "1024", "8192"
    ).replace("BLOCK=8192", "BLOCK=8192, num_warps=1, maxnreg=40")
    built, _ = examine(body, "sm_80")
    assert isinstance(built, Built)
    (kernel,) = built.kernels
    assert kernel.registers == 40
    assert kernel.spills > 0
    assert kernel.stack > 0


@pytest.mark.slow
def test_an_endless_loop_in_a_kernel_is_ended(examine):
    body = GOOD.replace("    v = tl", "    k = n\n    while k > 0:\n        k += 0\n    v = tl", 1)
    built, answers = examine(body + MODEL)
    assert isinstance(built, Built)
    assert isinstance(answers, TimedOut)
    assert "still in program (0, 0, 0)" in answers.reason


@pytest.mark.slow
def test_programs_that_wait_for_each_other_are_not_checked_and_do_not_hang(examine):
    body = """
@triton.jit
def scale(x, out, flag, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2 + 1, mask=i < n)
    tl.atomic_add(flag, 1)
    while tl.atomic_add(flag, 0) < tl.num_programs(0):
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        flag = torch.zeros(1, dtype=torch.int32, device=x.device)
        scale[(triton.cdiv(n, 1024),)](x, out, flag, n, BLOCK=1024)
        return out
"""
    built, answers = examine(body)
    assert isinstance(built, Built)
    assert "waits for other programs" in answers.unchecked


def test_a_failure_that_the_candidate_catches_is_seen(examine):
    body = GOOD.replace("v * 2 + 1", "tl.no_such_function(v)") + MODEL.replace(
        "        scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)\n",
        "        try:\n            scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)\n"
        "        except Exception:\n            return x * 2 + 1\n",
    )
    built, _ = examine(body)
    assert isinstance(built, BuildFailed)


def test_an_answer_without_a_kernel_is_refused(examine):
    built, _ = examine(
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        return x * 2 + 1\n"
    )
    assert isinstance(built, Refused)
    assert built.trick == "no-own-kernel"


@pytest.mark.parametrize(("size", "right"), [(77000, True), (76999, False)])
def test_a_kernel_written_for_the_tasks_size_is_asked_at_that_size(examine, size, right):
    _, answers = examine(GOOD.replace("i < n", f"i < {size}") + MODEL)
    if right:
        assert (answers.unchecked, answers.notes) == ("", ())
    else:
        assert isinstance(answers, Wrong), "on smaller shapes alone nobody would know"


def test_rows_of_the_tasks_length_race_on_smaller_shapes_alone(examine):
    """A program reads and writes 77 elements of each row: where rows are shorter, those of the next one."""
    body = """
@triton.jit
def scale(x, out, width):
    at = tl.arange(0, 128)
    place = tl.program_id(0) * width + at
    v = tl.load(x + place, mask=at < 77)
    tl.store(out + place, tl.where(at < width, v * 2 + 1, 0.0), mask=at < 77)
"""
    launch = "scale[(x.shape[0],)](x, out, x.shape[1])"
    _, answers = examine(
        body + MODEL.replace("scale[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)", launch)
    )
    assert (answers.unchecked, answers.notes) == ("", ())


def test_a_kernel_written_for_a_size_that_is_too_large_is_not_called_wrong(
    make_desk, architectures
):
    desk = make_desk(SCALE.replace("1000, 77", "40001, 77"), Limits(memory=2 << 30))
    body = GOOD.replace("i < n", f"i < {40001 * 77}") + MODEL
    finding = desk.examine(HEAD + body, (architectures["sm_90"],))
    assert "written for the task's shapes" in finding.answers.unchecked


def test_inline_assembly_is_compiled_and_not_checked(examine):
    body = GOOD.replace(
        "v * 2 + 1",
        'tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [v], dtype=tl.float32, '
        "is_pure=True, pack=1) + 1",
    )
    built, answers = examine(body + MODEL)
    assert isinstance(built, Built)
    assert "inline assembly" in answers.unchecked


def test_a_candidate_can_start_no_program_and_read_no_home(examine):
    body = GOOD + "import os\nimport subprocess\nsubprocess.run(['id'])\n" + MODEL
    built, _ = examine(body)
    assert isinstance(built, BuildFailed)
    assert "PermissionError" in built.reason


@pytest.mark.slow
def test_dots_of_float32_are_rounded_to_tf32_as_nvidia_does_and_not_on_amd(
    make_desk, architectures
):
    reference = SCALE.replace("x * 2 + 1", "x @ x.t()").replace("1000, 77", "64, 64")
    body = """
@triton.jit
def square(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + i[None, :])
    b = tl.load(x + i[:, None] + i[None, :] * N)
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(a, b))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        square[(1,)](x, out, N=x.shape[0])
        return out
"""
    desk = make_desk(reference)
    nvidia = desk.examine(HEAD + body, (architectures["sm_90"],))
    assert isinstance(nvidia.answers, Fault)
    assert isinstance(nvidia.answers.outcome, Wrong)
    assert "tf32" in nvidia.answers.outcome.detail
    amd = desk.examine(HEAD + body, (architectures["gfx950"],))
    assert not isinstance(amd.answers, Fault)
    assert amd.answers.unchecked == ""


@pytest.mark.slow
def test_an_index_that_was_loaded_is_not_taken_for_one_out_of_bounds(make_desk, architectures):
    reference = """
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x, ids):
                return x[ids - 1] * 2

        def get_inputs():
            return [torch.randn(900), torch.randint(1, 900, (5000,))]
    """
    body = """
@triton.jit
def pick(x, ids, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(ids + i, mask=i < n, other=1) - 1
    tl.store(out + i, tl.load(x + place, mask=i < n) * 2, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, ids):
        out = torch.empty(ids.shape, device=x.device)
        pick[(triton.cdiv(ids.numel(), 512),)](x, ids, out, ids.numel(), BLOCK=512)
        return out
"""
    finding = make_desk(reference).examine(HEAD + body, (architectures["sm_90"],))
    assert isinstance(finding.built["sm_90"], Built), finding.built
    assert not isinstance(finding.answers, Fault), finding.answers.outcome
    assert finding.answers.unchecked == ""


PACKED = """
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def scale(x, w, out, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n) * tl.load(w + i % columns, mask=i < n)
    tl.store(out + i, v, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))
        self.packed = torch.empty(columns, device="cuda")
        double[(triton.cdiv(columns, 256),)](self.weight.cuda(), self.packed, columns, BLOCK=256)

    def forward(self, x):
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        scale[grid](x, self.packed, out, x.numel(), x.shape[1], BLOCK=1024)
        return out
"""


def test_a_constructor_may_pack_its_parameters_with_a_kernel(make_desk, architectures):
    reference = """
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self, columns):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(columns))

            def forward(self, x):
                return x * self.weight * 2

        def get_inputs():
            return [torch.randn(600, 300)]

        def get_init_inputs():
            return [300]
    """
    finding = make_desk(reference).examine(HEAD + PACKED, (architectures["sm_90"],))
    built = finding.built["sm_90"]
    assert isinstance(built, Built), built
    assert [(kernel.name, kernel.launches) for kernel in built.kernels] == [("scale", 1)]
    assert not isinstance(finding.answers, Fault), finding.answers.outcome
    assert finding.answers.unchecked == ""


def test_tensors_say_that_they_are_on_the_device_at_every_shape(examine):
    body = GOOD + MODEL.replace(
        "        n = x.numel()\n",
        "        n = x.numel()\n"
        "        assert x.is_cuda and x.device.type == 'cuda' and out.device == x.device\n"
        "        assert x.get_device() == 0 and not x.is_cpu\n"
        "        assert torch.zeros(2, device=x.device).device.index == 0\n",
    )
    built, answers = examine(body)
    assert isinstance(built, Built)
    assert built.notes == ()
    assert answers.unchecked == ""


def test_a_grid_that_follows_from_values_is_compiled_for_smaller_shapes(examine):
    body = GOOD + MODEL.replace(
        "        n = x.numel()\n", "        n = x.numel() + int((x != x).sum().item())\n"
    )
    built, answers = examine(body)
    assert isinstance(built, Built)
    assert any("compiled for smaller shapes" in note for note in built.notes)
    assert answers.unchecked == ""


def test_a_candidate_that_fails_on_every_shape_has_crashed(examine):
    built, answers = examine(GOOD + MODEL.replace("x.numel()", "x.no_such_method()"))
    assert isinstance(built, Crashed)
    assert "no_such_method" in built.reason
    assert isinstance(answers, Crashed) or "shapes" in answers.unchecked
