"""Extensions of torch's `load_inline`: with the stand-in for torch's headers, and with the headers."""

import shutil
import subprocess
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from kb.runtime import nvcc
from search.languages import Unit
from search.languages.cuda import Cuda

HOST = r"""
#include <torch/extension.h>
#include <vector>
torch::Tensor told(torch::Tensor x, int64_t n, int m, double d, float f, bool b, std::string s) {
  TORCH_CHECK(x.dim() == 2, "expected two dimensions, found ", x.dim(), " of ", x.sizes());
  TORCH_CHECK(x.is_contiguous());
  auto y = torch::empty({x.size(0), x.size(-1)}, x.options());
  const float* from = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) y.data_ptr<float>()[i] = from[i] * n + m + d + f + b + s.size();
  return y;
}
std::vector<at::Tensor> several(const torch::Tensor& x, c10::optional<torch::Tensor> maybe, std::vector<int64_t> sizes) {
  auto whole = torch::zeros(sizes, torch::TensorOptions().dtype(torch::kInt32).device(x.device()));
  auto half = torch::full({2}, 0.5, torch::dtype(torch::kFloat64));
  return {x.t().contiguous().view({-1}), whole, half, maybe.has_value() ? *maybe : torch::ones_like(x)};
}
std::tuple<torch::Tensor, int64_t> both(torch::Tensor x) { return {x.clone().zero_(), x.stride(0)}; }
void nothing(torch::Tensor x) { x.fill_(7.0); }
torch::Tensor kinds(torch::Tensor x) {
  if (x.dtype() != torch::kFloat32) AT_ERROR("a kind that is not known: ", x.scalar_type());
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "kinds", [&] { return torch::full({1}, double(sizeof(scalar_t))); });
}
torch::Tensor composed(torch::Tensor a, torch::Tensor b) {
  auto c = torch::matmul(a, b) * 2.0 + a.sum(-1, true) - torch::relu(b);
  c.add_(1).mul_(0.5);
  return torch::softmax(1 - c / 3, -1).mean(0) + c.abs().max();
}
double rows(const torch::Tensor x) { return x.sizes()[0] + 0.5; }
"""
FUNCTIONS = ["told", "several", "both", "nothing", "kinds", "rows", "composed"]


def _unit(**changes: Any) -> tuple[Cuda, Unit]:
    given = {"name": "stood_in", "cpp_sources": HOST, "functions": FUNCTIONS, **changes}
    text = f"load_inline({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    language = Cuda("sm_90")
    (unit,) = language.units(text)
    return language, unit


def _run(language: Cuda, unit: Unit, folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    for name, text in {**unit.files, unit.text: unit.source}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = list(language.command(unit, unit.text, unit.output))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return folder / unit.output, done


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not on this machine")
    language, unit = _unit()
    folder = tmp_path_factory.mktemp("inline")
    path, done = _run(language, unit, folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "main.o").exists(), "the stand-in was enough"
    loader = ExtensionFileLoader("stood_in", str(path))
    module = module_from_spec(ModuleSpec("stood_in", loader, origin=str(path)))
    loader.exec_module(module)
    return module


@pytest.mark.slow
def test_numbers_and_tensors_cross_as_with_torchs_own_bindings(extension: Any) -> None:
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(
        extension.told(x, 2, 3, 0.25, 0.5, True, "four"), x * 2 + 3 + 0.25 + 0.5 + 1 + 4
    )
    flat, whole, half, ones = extension.several(x, None, [2, 2])
    assert torch.equal(flat, x.t().reshape(-1))
    assert whole.dtype == torch.int32
    assert whole.shape == (2, 2)
    assert (half.dtype, half.tolist()) == (torch.float64, [0.5, 0.5])
    assert torch.equal(ones, torch.ones_like(x))
    assert extension.several(x, x, (1,))[3] is x
    zeros, stride = extension.both(x)
    assert (zeros.sum().item(), stride) == (0.0, 3)
    assert extension.nothing(zeros) is None
    assert zeros.unique().tolist() == [7.0]
    assert extension.kinds(x).item() == 4.0
    assert extension.rows(x) == 2.5
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    c = (a @ b * 2 + a.sum(-1, keepdim=True) - torch.relu(b) + 1) * 0.5
    wanted = torch.softmax(1 - c / 3, -1).mean(0) + c.abs().max()
    torch.testing.assert_close(extension.composed(a, b), wanted)


@pytest.mark.parametrize(
    ("call", "error", "pattern"),
    [
        (lambda e: e.told(torch.ones(3), 1, 1, 1, 1, True, ""), RuntimeError, r"found 1 of \[3\]"),
        (lambda e: e.told(torch.ones(3, 2).t(), 1, 1, 1, 1, True, ""), RuntimeError, "Expected x.is_contiguous"),
        (lambda e: e.told(torch.ones(3, 2).double(), 1, 1, 1, 1, True, ""), RuntimeError, "expected scalar type float32 but found float64"),
        (lambda e: e.rows([1]), TypeError, "incompatible function arguments: expected a tensor"),
        (lambda e: e.rows(), TypeError, "1 expected, 0 given"),
        (lambda e: e.told(torch.ones(1, 1), 1.5, 1, 1, 1, True, ""), TypeError, "expected an integer"),
        (lambda e: e.told(torch.ones(1, 1), 1, 1 << 40, 1, 1, True, ""), TypeError, "an integer that fits"),
        (lambda e: e.kinds(torch.ones(1).long()), RuntimeError, "not known: int64"),
        (lambda e: e.several(torch.ones(2, 2), None, [-1]), RuntimeError, "negative"),
    ],
)  # fmt: skip
def test_what_torch_or_its_checks_refuse_is_raised_in_python(
    extension: Any, call: Any, error: type[Exception], pattern: str
) -> None:
    with pytest.raises(error, match=pattern):
        call(extension)


def test_a_call_keeps_no_reference(extension: Any) -> None:
    import sys

    x = torch.ones(2, 3)
    before = sys.getrefcount(x)
    for _ in range(10):
        extension.both(x)
        extension.rows(x)
        with pytest.raises(RuntimeError):
            extension.told(torch.ones(1), 1, 1, 1, 1, True, "")
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize(
    "beyond",
    ["PYBIND11_MODULE(x, m) {}", "torch::nn::Linear f(1, 1);", "TORCH_LIBRARY(x, m) {}", "py::list l;"],
)  # fmt: skip
def test_what_the_stand_in_cannot_have_goes_to_torchs_headers_at_once(beyond: str) -> None:
    _, unit = _unit(cpp_sources=f"{HOST}\n{beyond}")
    assert not any(name.startswith("one.") for name in unit.files)
    assert "main.cpp" in unit.files


FAKE = """#!/bin/sh
echo "$0 $@" >> {log}
case "$*" in
  *-Istandin*) {standin};;
  *-Islim*) {slim};;
  *-DKB_ALL_HEADERS*) {all_headers};;
esac
for word in "$@"; do case "$previous" in -o) : > "$word";; esac; previous="$word"; done
"""
LACKS = 'echo \'cuda_sources(3): error: namespace "at" has no member "softmax"\' >&2; exit 1'
WRONG = "echo 'cuda_sources(3): error: identifier \"nope\" is undefined' >&2; exit 1"


@pytest.fixture
def compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that puts compilers of a given behaviour in place, and the file that hears of their calls."""
    home = tmp_path / "toolkit"
    log = tmp_path / "calls"

    def put(**behaviour: str) -> Path:
        (home / "bin").mkdir(parents=True)
        text = FAKE.format(
            log=log, **{"standin": ":", "slim": ":", "all_headers": ":", **behaviour}
        )
        for name in ("nvcc", "g++"):
            (home / "bin" / name).write_text(text)
            (home / "bin" / name).chmod(0o755)
        monkeypatch.setattr(nvcc, "cuda_home", lambda: home)
        monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
        return log

    return put


@pytest.mark.parametrize(
    ("behaviour", "calls", "told"),
    [
        ({}, ["standin"], None),
        ({"standin": WRONG}, ["standin"], '"nope" is undefined'),
        ({"standin": LACKS}, ["standin", "slim", "slim"], None),
        ({"standin": LACKS, "slim": LACKS}, ["standin", "slim", "slim", "all", "all"], None),
        ({"standin": LACKS, "slim": WRONG}, ["standin", "slim", "slim"], '"nope" is undefined'),
        ({"standin": LACKS, "slim": LACKS, "all_headers": WRONG}, ["standin", "slim", "slim", "all", "all"], '"nope" is undefined'),
    ],
)  # fmt: skip
def test_more_headers_are_taken_only_where_fewer_lack_something(
    tmp_path: Path, compilers: Any, behaviour: dict[str, str], calls: list[str], told: str | None
) -> None:
    log = compilers(**behaviour)
    language, unit = _unit(cpp_sources="torch::Tensor f(torch::Tensor x);", cuda_sources="// f", functions=["f"])  # fmt: skip
    (tmp_path / "build").mkdir()
    path, done = _run(language, unit, tmp_path / "build")
    words = {"-Istandin": "standin", "-Islim": "slim", "-DKB_ALL_HEADERS": "all"}
    made = [name for line in log.read_text().splitlines() for word, name in words.items() if word in line]  # fmt: skip
    assert made == calls
    assert (done.returncode == 0, path.exists()) == (told is None, told is None)
    if told:
        assert told in done.stderr
