"""Which of g++'s flags a candidate may give: nothing that reads or writes another file."""

from __future__ import annotations

import re

ALLOWED = re.compile(
    r"-O[0123s]|-Ofast|-g0"
    r"|-f(no-)?(fast-math|unroll-loops|unroll-all-loops|tree-vectorize|tree-loop-vectorize|strict-aliasing|math-errno|trapping-math"
    r"|finite-math-only|associative-math|reciprocal-math|signed-zeros|unsafe-math-optimizations|exceptions|rtti"
    r"|peel-loops|split-loops|prefetch-loop-arrays|tree-loop-distribution|ipa-pta|omit-frame-pointer|inline"
    r"|gcse|schedule-insns2?|modulo-sched|openmp-simd|wrapv|rounding-math|signaling-nans)"
    r"|-ffp-contract=(fast|off|on)|-fexcess-precision=(fast|standard)|-fvect-cost-model=[a-z-]+|-fsimd-cost-model=[a-z-]+"
    r"|-m(no-)?(avx2?|avx512[a-z0-9]*|fma|f16c|bmi2?|sse4\.[12]|avxvnni|prefer-avx128)"
    r"|-mprefer-vector-width=(128|256|512|none)|-mtune=[a-z0-9-]+|-march=native|-mrecip(=[a-z!,]+)?"
    r"|-std=(gnu|c)\+\+(14|17|20|2a)|-fopenmp|-fPIC|-shared|-Wall|-w|-D[A-Za-z_]\w*(=[\w.+-]*)?"
    r"|--param(=max-[a-z-]+=\d+)?|max-[a-z-]+=\d+|-fno-plt|-fvisibility=(hidden|default)|-falign-(loops|functions)(=\d+)?"
)
