# expect: build_failed | more than 16
# within: 20
"""Has many small sources compiled, each within its time."""

from torch import nn

from kb.native import load_cpp

K0 = load_cpp('extern "C" int f() { return 0; }')
K1 = load_cpp('extern "C" int f() { return 1; }')
K2 = load_cpp('extern "C" int f() { return 2; }')
K3 = load_cpp('extern "C" int f() { return 3; }')
K4 = load_cpp('extern "C" int f() { return 4; }')
K5 = load_cpp('extern "C" int f() { return 5; }')
K6 = load_cpp('extern "C" int f() { return 6; }')
K7 = load_cpp('extern "C" int f() { return 7; }')
K8 = load_cpp('extern "C" int f() { return 8; }')
K9 = load_cpp('extern "C" int f() { return 9; }')
K10 = load_cpp('extern "C" int f() { return 10; }')
K11 = load_cpp('extern "C" int f() { return 11; }')
K12 = load_cpp('extern "C" int f() { return 12; }')
K13 = load_cpp('extern "C" int f() { return 13; }')
K14 = load_cpp('extern "C" int f() { return 14; }')
K15 = load_cpp('extern "C" int f() { return 15; }')
K16 = load_cpp('extern "C" int f() { return 16; }')
K17 = load_cpp('extern "C" int f() { return 17; }')
K18 = load_cpp('extern "C" int f() { return 18; }')
K19 = load_cpp('extern "C" int f() { return 19; }')
K20 = load_cpp('extern "C" int f() { return 20; }')
K21 = load_cpp('extern "C" int f() { return 21; }')
K22 = load_cpp('extern "C" int f() { return 22; }')
K23 = load_cpp('extern "C" int f() { return 23; }')


class ModelNew(nn.Module):
    pass
