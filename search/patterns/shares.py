"""What part of a measured program's time each operator family takes, by the names of its kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from search.outcome import KernelTime

# What names say, of libraries' kernels and of one's own. A name may say several: each gets a part.
_NAMES: Mapping[str, re.Pattern[str]] = {
    family: re.compile(words, re.IGNORECASE)
    for family, words in (
        ("attention", r"attention|attn|flash|fmha"),
        ("convolution", r"conv|winograd"),
        ("matmul", r"gemm|gemv|matmul|linear|nvjet|xmma|cutlass|wgmma|(?:^|_)(?:mm|bmm|mlp|proj|dot)(?:_|$)"),
        ("softmax", r"softmax|logsumexp"),
        ("normalization", r"norm(?!al_)|welford|moments"),
        ("loss", r"loss|entropy|nll"),
        ("scan", r"scan|cumsum|cumprod|prefix|recurren"),
        ("sort", r"sort|top_?k|radix|kth"),
        ("pooling", r"pool"),
        ("gather-scatter", r"gather|scatter|embedding|index"),
        ("reduction", r"reduce|reduction|(?:^|_)(?:sum|mean|max|min)(?:_|$)"),
        ("elementwise", r"elementwise|pointwise|vectorized|copy|memcpy|memset|fill|(?:^|_)(?:act|gelu|silu|relu|add|mul)(?:_|$)"),
    )
}  # fmt: skip


def measured_shares(
    kernels: Sequence[KernelTime], estimated: Mapping[str, float]
) -> dict[str, float]:
    """Return shares of the device's time by operator family, {} where nothing was profiled.

    Args:
        estimated: shares that are taken for kernels whose names say nothing.
    """
    total = sum(one.seconds for one in kernels)
    if total <= 0:
        return {}
    shares: dict[str, float] = {}
    for one in kernels:
        said = [family for family, words in _NAMES.items() if words.search(one.name)]
        parts = {family: 1 / len(said) for family in said} if said else estimated
        for family, part in parts.items():
            shares[family] = shares.get(family, 0.0) + part * one.seconds / total
    return shares
