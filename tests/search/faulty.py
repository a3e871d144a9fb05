"""Kernels that look honest and have one random fault each, as one source in C++ and one in CUDA C++, built once.

A fault is a few numbers, which the candidate hands to the kernel: a thousand candidates differ in a
line of Python, and their build is shared.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

ROWS, COLUMNS, INNER = 37, 203, 96
OPERATORS = ("softmax", "layernorm", "matmul", "gelu", "cumsum", "mean", "convolution")
# In the order of the kernel's numbers.
KINDS = ("none", "wrong tail", "dropped term", "stale buffer", "precision cut", "skipped block",
         "shifted index", "wrong constant", "unstable formula", "clamped answer")  # fmt: skip
_SUMS = {"softmax": COLUMNS, "layernorm": COLUMNS, "matmul": INNER, "cumsum": COLUMNS, "mean": COLUMNS,
         "convolution": 3}  # fmt: skip
_WITH_CONSTANTS = {"layernorm", "gelu", "mean"}
_WITH_FORMULAS = {"softmax", "layernorm", "gelu"}

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

enum { NONE, TAIL, TERM, STALE, CUT, BLOCK, SHIFT, CONSTANT, UNSTABLE, CLAMP };
struct Fault { long kind, row, column, height, width; double amount; };
static std::vector<float> kept;

static inline float cut(float value, const Fault &f) {
  if (f.kind != CUT) return value;
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  int drop = 23 - (int)f.width;
  bits &= ~((1u << drop) - 1);
  std::memcpy(&value, &bits, 4);
  return value;
}
static inline bool dropped(long term, const Fault &f) { return f.kind == TERM && term % f.width == f.column; }
static inline bool inside(long i, long j, const Fault &f) {
  return i >= f.row && i < f.row + f.height && j >= f.column && j < f.column + f.width;
}
static inline long at(long i, long j, const Fault &f) { return f.kind == SHIFT && j && inside(i, j, f) ? j - 1 : j; }

static void softmax(const float *x, float *y, long n, long i, const Fault &f) {
  double top = -INFINITY, sum = 0;
  if (f.kind == UNSTABLE) top = 0;
  else for (long j = 0; j < n; j++) top = x[j] > top ? x[j] : top;
  for (long j = 0; j < n; j++) if (!dropped(j, f)) sum += cut(std::exp(cut(x[j], f) - (float)top), f);
  for (long j = 0; j < n; j++) y[j] = cut(std::exp(cut(x[at(i, j, f)], f) - (float)top), f) / (float)sum;
}
static void layernorm(const float *x, const float *w, const float *b, float *y, long n, long i, const Fault &f) {
  double mean = 0, var = 0, eps = 1e-5 * (f.kind == CONSTANT ? 1 + f.amount : 1);
  for (long j = 0; j < n; j++) if (!dropped(j, f)) mean += cut(x[j], f);
  mean /= n;
  if (f.kind == UNSTABLE) {
    float squares = 0;
    for (long j = 0; j < n; j++) squares += x[j] * x[j];
    var = squares / n - (float)mean * (float)mean;
  } else {
    for (long j = 0; j < n; j++) if (!dropped(j, f)) var += (cut(x[j], f) - mean) * (cut(x[j], f) - mean);
    var /= n;
  }
  double scale = 1 / std::sqrt(var + eps);
  for (long j = 0; j < n; j++) y[j] = (float)((cut(x[at(i, j, f)], f) - mean) * scale) * w[j] + b[j];
}
static void matmul(const float *x, const float *w, float *y, long n, long inner, long i, const Fault &f) {
  for (long j = 0; j < n; j++) {
    double sum = 0;
    for (long k = 0; k < inner; k++)
      if (!dropped(k, f)) sum += (double)cut(x[k], f) * cut(w[k * n + at(i, j, f)], f);
    y[j] = (float)sum;
  }
}
static void gelu(const float *x, const float *w, const float *b, float *y, long n, long i, const Fault &f) {
  double half = 0.5 * (f.kind == CONSTANT ? 1 + f.amount : 1);
  for (long j = 0; j < n; j++) {
    double v = cut(x[at(i, j, f)], f), inner = v + 0.044715 * v * v * v;
    double g = f.kind == UNSTABLE ? 0.5 * v * (1 + std::tanh(0.7978845608028654 * inner))
                                  : half * v * (1 + std::erf(v * 0.7071067811865476));
    y[j] = cut((float)g, f) * w[j] + b[j];
  }
}
static void cumsum(const float *x, float *y, long n, long i, const Fault &f) {
  double sum = 0;
  for (long j = 0; j < n; j++) { if (!dropped(j, f)) sum += cut(x[at(i, j, f)], f); y[j] = (float)sum; }
}
static void mean(const float *x, float *y, long n, const Fault &f) {
  double sum = 0;
  for (long j = 0; j < n; j++) if (!dropped(j, f)) sum += cut(x[j], f);
  y[0] = (float)(sum / (n * (f.kind == CONSTANT ? 1 + f.amount : 1)));
}
static void convolution(const float *x, const float *w, const float *b, float *y, long n, long i, const Fault &f) {
  for (long j = 0; j < n; j++) {
    double sum = 0;
    for (long k = 0; k < 3; k++) {
      long from = at(i, j, f) + k - 1;
      if (from >= 0 && from < n && !dropped(k, f)) sum += (double)cut(x[from], f) * w[k];
    }
    y[j] = (float)sum + b[0];
  }
}

extern "C" void run(const float *x, const float *w, const float *b, float *y, long rows, long n, long inner, long op,
                    const long *numbers, double amount) {
  Fault f = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], amount};
  long wide = op == 5 ? 1 : n;
  std::vector<float> row(wide);
  bool first = (long)kept.size() != rows * wide;
  if (first) kept.resize(rows * wide);
  for (long i = 0; i < rows; i++) {
    float *out = row.data();
    switch (op) {
      case 0: softmax(x + i * n, out, n, i, f); break;
      case 1: layernorm(x + i * n, w, b, out, n, i, f); break;
      case 2: matmul(x + i * inner, w, out, n, inner, i, f); break;
      case 3: gelu(x + i * n, w, b, out, n, i, f); break;
      case 4: cumsum(x + i * n, out, n, i, f); break;
      case 5: mean(x + i * n, out, n, f); break;
      default: convolution(x + i * n, w, b, out, n, i, f);
    }
    for (long j = 0; j < wide; j++) {
      float value = out[j];
      // The remainder of a vectorised loop, which takes what the last whole vector left.
      if (f.kind == TAIL && j >= wide - f.width && i >= rows - f.height) value = out[wide > f.width ? wide - f.width - 1 : 0] * (float)f.amount;
      if (f.kind == CLAMP) value = std::fmin(std::fmax(value, (float)-f.amount), (float)f.amount);
      if (f.kind == STALE && !first && inside(i, j, f)) value = kept[i * wide + j];
      if (!(f.kind == BLOCK && inside(i, j, f))) y[i * wide + j] = value;
      kept[i * wide + j] = value;
    }
  }
}
"""
# The same for a GPU: a thread has a row, and what is kept stays in the module's own memory.
_CUDA_ENTRY = r"""
extern "C" __global__ void run(const float *x, const float *w, const float *b, float *y, int rows, int n, int inner,
                               int op, int kind, int row, int column, int height, int width, double amount) {
  long i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  Fault f = {kind, row, column, height, width, amount};
  long wide = op == 5 ? 1 : n;
  float out[COLUMNS];
SWITCH
  bool first = !seen[i];
  seen[i] = true;
  for (long j = 0; j < wide; j++) {
    float value = out[j];
STORE
  }
}
"""


def cuda_source() -> str:
    """Return SOURCE for a GPU: the same rows, faults and formulas."""
    rows, entry = SOURCE[SOURCE.index("enum") :].split('extern "C"')
    switch = entry[entry.index("    switch (op)") : entry.index("    for (long j = 0; j < wide")]
    store = entry[entry.index("      // The remainder") : entry.index("    }\n  }\n}")]
    kept = f"__device__ float kept[{ROWS} * {COLUMNS}];\n__device__ bool seen[{ROWS}];"
    told = {
        "static std::vector<float> kept;": kept,
        "static ": "static __device__ ",
        "std::": "",
        "uint32_t": "unsigned",
    }
    for old, new in told.items():
        rows, store = rows.replace(old, new), store.replace(old, new)
    return rows + _CUDA_ENTRY.replace("COLUMNS", str(COLUMNS)).replace("STORE", store).replace(
        "SWITCH", switch
    )


_CUDA_CANDIDATE = '''import torch
from torch import nn

from kb.native import load_cuda

K = load_cuda(r"""{source}""", "--fmad=false")


class ModelNew(nn.Module):
{parameters}
    def forward(self, x{more}):
        y = torch.empty({shape}, device=x.device)
        K.run(2, 32, x, {w}, {b}, y, x.shape[0], {columns}, x.shape[1], {operator}, {numbers}, {amount!r})
        return y
'''
_CANDIDATE = '''import ctypes

import torch
from torch import nn

from kb.native import load_cpp

K = load_cpp(r"""{source}""", "-ffp-contract=off")
NUMBERS = (ctypes.c_long * 5)({numbers})


class ModelNew(nn.Module):
{parameters}
    def forward(self, x{more}):
        y = torch.empty({shape})
        w, b = {w}, {b}
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y)]
        sizes = [ctypes.c_long(n) for n in (x.shape[0], {columns}, x.shape[1], {operator})]
        K.run(*pointers, *sizes, NUMBERS, ctypes.c_double({amount!r}))
        return y
'''
_PARAMETERS = """    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones({length}))
        self.bias = nn.Parameter(torch.zeros({width}))
"""
_FORWARD = {
    "softmax": "torch.softmax(x, -1)",
    "layernorm": "torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias)",
    "matmul": "x @ w",
    "gelu": "torch.nn.functional.gelu(x) * self.weight + self.bias",
    "cumsum": "torch.cumsum(x, -1)",
    "mean": "x.mean(-1)",
    "convolution": "torch.nn.functional.conv1d(x[:, None], self.weight[None, None], self.bias, padding=1)[:, 0]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a kernel.

    Attributes:
        row, column, height, width: of the block that it is in; for a dropped term, every `width`-th from
            `column` on; for a precision cut, the bits of the mantissa that are left.
        amount: of a constant, relative; of a clamp, the bound; of a tail, the factor of the value that stands there.
    """

    operator: str
    kind: str
    row: int = 0
    column: int = 0
    height: int = 1
    width: int = 1
    amount: float = 0.0


def _parameters(operator: str) -> str:
    if operator not in {"layernorm", "gelu", "convolution"}:
        return ""
    length, width = (3, 1) if operator == "convolution" else (COLUMNS, COLUMNS)
    return _PARAMETERS.format(length=length, width=width)


def reference(operator: str) -> str:
    """Return the program that kernels of an operator stand for."""
    more = ", w" if operator == "matmul" else ""
    shapes = f"{ROWS}, {INNER if operator == 'matmul' else COLUMNS}"
    second = f", torch.randn({INNER}, {COLUMNS})" if operator == "matmul" else ""
    return (
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        f"{_parameters(operator)}\n    def forward(self, x{more}):\n        return {_FORWARD[operator]}\n\n\n"
        f"def get_inputs():\n    return [torch.randn({shapes}){second}]\n"
    )


def candidate(fault: Fault, device: str = "cpu") -> str:
    """Return the program with the fault, for a processor or for a GPU (``cuda``)."""
    own = bool(_parameters(fault.operator))
    matmul = fault.operator == "matmul"
    numbers = (KINDS.index(fault.kind), fault.row, fault.column, fault.height, fault.width)
    return (_CUDA_CANDIDATE if device == "cuda" else _CANDIDATE).format(
        source=cuda_source() if device == "cuda" else SOURCE,
        numbers=", ".join(map(str, numbers)),
        parameters=_parameters(fault.operator),
        more=", w" if matmul else "",
        shape="x.shape[0]" if fault.operator == "mean" else f"x.shape[0], {COLUMNS}",
        w="w" if matmul else "self.weight" if own else "x",
        b="self.bias" if own else "x",
        columns=COLUMNS,
        operator=OPERATORS.index(fault.operator),
        amount=fault.amount,
    )


def _kinds(operator: str) -> list[str]:
    kinds = [
        kind
        for kind in KINDS[1:]
        if kind not in {"dropped term", "wrong constant", "unstable formula"}
    ]
    kinds += ["dropped term"] if operator in _SUMS else []
    kinds += ["wrong constant"] if operator in _WITH_CONSTANTS else []
    kinds += ["unstable formula"] if operator in _WITH_FORMULAS else []
    return [kind for kind in kinds if operator != "mean" or kind != "shifted index"]


@st.composite
def faults(
    draw: st.DrawFn, operators: tuple[str, ...] = OPERATORS, *, gross: bool = False
) -> Fault:
    """Draw a fault; `gross`: one that no judge may miss."""
    operator = draw(st.sampled_from(operators))
    kinds = [kind for kind in _kinds(operator) if not gross or kind != "unstable formula"]
    kind = draw(st.sampled_from(kinds))
    columns = 1 if operator == "mean" else COLUMNS
    row, column = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, columns - 1))
    height = draw(st.integers(1, ROWS - row))
    width = draw(st.integers(1, columns - column))
    amount = 0.0
    if kind == "wrong tail":
        row, column, height = 0, 0, draw(st.integers(1, ROWS))
        width, amount = (
            draw(st.integers(1, min(7, columns))),
            draw(st.sampled_from((0.0, 1.0, 0.5))),
        )
    elif kind == "dropped term":
        row, height, width = 0, 1, draw(st.integers(2, _SUMS[operator]))
        column = draw(st.integers(0, width - 1))
    elif kind == "precision cut":
        row, column, height, width = 0, 0, 1, draw(st.integers(1, 10 if gross else 22))
    elif kind == "wrong constant":
        row, column, height, width = 0, 0, 1, 1
        least = -1.0 if gross else -8.0
        amount = 10.0 ** draw(st.floats(least, 0.0)) * draw(st.sampled_from((-1.0, 1.0)))
    elif kind == "clamped answer":
        row, column, height, width = 0, 0, 1, 1
        # Answers of a softmax and of a mean are below 1.
        amount = 10.0 ** draw(st.floats(-3.0, -1.5 if gross else 7.0))
    elif kind == "unstable formula":
        row, column, height, width = 0, 0, 1, 1
    return Fault(
        operator=operator,
        kind=kind,
        row=row,
        column=column,
        height=height,
        width=width,
        amount=amount,
    )
