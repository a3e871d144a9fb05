# expect: build_failed | more than 16
# within: 30
"""Has many small sources compiled, each within its time."""
from torch import nn

from kb.native import load_cuda

K0 = load_cuda("__global__ void f0() {}")
K1 = load_cuda("__global__ void f1() {}")
K2 = load_cuda("__global__ void f2() {}")
K3 = load_cuda("__global__ void f3() {}")
K4 = load_cuda("__global__ void f4() {}")
K5 = load_cuda("__global__ void f5() {}")
K6 = load_cuda("__global__ void f6() {}")
K7 = load_cuda("__global__ void f7() {}")
K8 = load_cuda("__global__ void f8() {}")
K9 = load_cuda("__global__ void f9() {}")
K10 = load_cuda("__global__ void f10() {}")
K11 = load_cuda("__global__ void f11() {}")
K12 = load_cuda("__global__ void f12() {}")
K13 = load_cuda("__global__ void f13() {}")
K14 = load_cuda("__global__ void f14() {}")
K15 = load_cuda("__global__ void f15() {}")
K16 = load_cuda("__global__ void f16() {}")
K17 = load_cuda("__global__ void f17() {}")
K18 = load_cuda("__global__ void f18() {}")
K19 = load_cuda("__global__ void f19() {}")
K20 = load_cuda("__global__ void f20() {}")
K21 = load_cuda("__global__ void f21() {}")
K22 = load_cuda("__global__ void f22() {}")
K23 = load_cuda("__global__ void f23() {}")


class ModelNew(nn.Module):
    pass
