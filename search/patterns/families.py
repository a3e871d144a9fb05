"""Which operator family knowledge files an ATen operator under, and what its arguments are called.

The judge's own table (`search.costs.trace`) has the operators whose least work it knows; all
others count as elementwise there. Knowledge may be more generous: a wrong family here costs a passage.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from search.costs.graph import Operator
from search.costs.trace import VIEWS, family, family_of, operator_name

_FURTHER = {
    "matmul": (
        "addmv", "addbmm", "addr", "tensordot", "inner", "linalg_matmul", "matrix_power", "matrix_exp",
        "linalg_matrix_power", "linalg_matrix_exp", "cov", "corrcoef", "cholesky", "linalg_cholesky",
        "linalg_cholesky_ex", "cholesky_solve", "linalg_solve", "linalg_solve_triangular",
        "linalg_inv", "inverse", "linalg_pinv", "linalg_lstsq", "linalg_lu", "linalg_lu_factor", "linalg_lu_solve", "linalg_qr",
        "linalg_svd", "linalg_svdvals", "linalg_eigh", "linalg_eigvalsh", "linalg_det", "logdet", "svd", "pinverse", "det",
        "linalg_slogdet", "slogdet", "qr", "geqrf", "ormqr", "cholesky_inverse", "lu_solve", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "_sparse_mm",
        "sparse_mm", "_int_mm", "_scaled_mm",
    ),
    "pooling": (
        "max_pool1d_with_indices", "max_pool3d_with_indices", "fractional_max_pool2d",
        "fractional_max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool3d",
    ),
    "softmax": ("_softmax", "_log_softmax", "special_softmax", "special_log_softmax", "special_logsumexp"),
    "reduction": (
        "std_mean", "nansum", "nanmean", "count_nonzero", "linalg_norm", "linalg_matrix_norm",
        "frobenius_norm", "nuclear_norm", "dist", "trace", "trapezoid", "trapz", "pairwise_distance",
        "pdist", "_pdist_forward", "_cdist_forward", "linalg_vecdot", "vdot", "equal",
    ),
    "scan": ("cumulative_trapezoid",),
    "gather-scatter": (
        "index_copy", "index_fill", "masked_scatter", "masked_select", "put", "slice_scatter",
        "select_scatter", "segment_reduce", "histogram", "histogramdd", "nonzero", "one_hot",
        "im2col", "col2im", "max_unpool2d", "max_unpool3d", "grid_sampler", "grid_sampler_2d",
        "grid_sampler_3d", "sparse_coo_tensor", "scatter_nd",
    ),
    "loss": (
        "poisson_nll_loss", "multilabel_margin_loss", "soft_margin_loss", "margin_ranking_loss",
        "multi_margin_loss", "nll_loss2d", "gaussian_nll_loss", "ctc_loss",
    ),
    "sort": (
        "msort", "mode", "nanmedian", "nanquantile", "unique_consecutive", "_unique2", "searchsorted",
        "bucketize", "isin",
    ),
}  # fmt: skip
_FAMILY = {name: kind for kind, names in _FURTHER.items() for name in names}
_NOTHING = frozenset(
    ["_assert_tensor_metadata", "broadcast_tensors", "broadcast_to", "expand_as", "mT", "mH", "swapaxes",
     "swapdims", "moveaxis", "diagonal", "view_as", "view_as_real", "view_as_complex", "real", "imag",
     "resolve_conj", "resolve_neg", "lift_fresh_copy", "atleast_2d", "adjoint", "ravel", "tensor_split",
     "hsplit", "vsplit", "dsplit", "feature_dropout", "alpha_dropout"]
)  # fmt: skip


def topic(operator: Operator) -> str | None:
    """Return the family whose knowledge concerns an operator, None for what computes nothing."""
    name = operator_name(operator)
    if name in _NOTHING:
        return None
    return _FAMILY.get(name) or family(operator)


def topic_of(name: str) -> str | None:
    """Return the family of an operator's plain name, None for one that no table names."""
    return None if name in VIEWS or name in _NOTHING else _FAMILY.get(name) or family_of(name)


def argument(operator: Operator, name: str) -> Any:
    """Return what an operator was given under a name of its schema, or the default; None for neither."""
    for key, value in operator.kwargs:
        if key == name:
            return value
    for place, (own, default) in enumerate(_arguments(operator.target)):
        if own == name:
            return operator.args[place] if place < len(operator.args) else default
    return None


@cache
def _arguments(target: str) -> tuple[tuple[str, Any], ...]:
    packet, _, overload = target.partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    schema = getattr(found, "_schema", None)
    if schema is None:
        return ()
    return tuple((one.name, one.default_value) for one in schema.arguments)
