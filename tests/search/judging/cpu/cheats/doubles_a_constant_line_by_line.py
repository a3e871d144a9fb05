# expect: build_failed|passed
"""Holds constants that take all of the judge's memory when they are put together before the file is run."""

from torch import nn

from kb.native import load_cpp

A = "/* 0123456789 */"
A1 = A + A
A2 = A1 + A1
A3 = A2 + A2
A4 = A3 + A3
A5 = A4 + A4
A6 = A5 + A5
A7 = A6 + A6
A8 = A7 + A7
A9 = A8 + A8
A10 = A9 + A9
A11 = A10 + A10
A12 = A11 + A11
A13 = A12 + A12
A14 = A13 + A13
A15 = A14 + A14
A16 = A15 + A15
B0 = A16 + "0"
B1 = A16 + "1"
B2 = A16 + "2"
B3 = A16 + "3"
B4 = A16 + "4"
B5 = A16 + "5"
B6 = A16 + "6"
B7 = A16 + "7"
B8 = A16 + "8"
B9 = A16 + "9"
B10 = A16 + "10"
B11 = A16 + "11"
B12 = A16 + "12"
B13 = A16 + "13"
B14 = A16 + "14"
B15 = A16 + "15"
B16 = A16 + "16"
B17 = A16 + "17"
B18 = A16 + "18"
B19 = A16 + "19"
B20 = A16 + "20"
B21 = A16 + "21"
B22 = A16 + "22"
B23 = A16 + "23"
B24 = A16 + "24"
B25 = A16 + "25"
B26 = A16 + "26"
B27 = A16 + "27"
B28 = A16 + "28"
B29 = A16 + "29"
B30 = A16 + "30"
B31 = A16 + "31"
B32 = A16 + "32"
B33 = A16 + "33"
B34 = A16 + "34"
B35 = A16 + "35"
B36 = A16 + "36"
B37 = A16 + "37"
B38 = A16 + "38"
B39 = A16 + "39"
KERNEL = load_cpp(B0 + 'extern "C" void f() {}')


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        return self.norm(x)
