"""What patterns may ask of a reference: traits of its operators' forms, each with what shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from search.patterns.flow import Flow
from search.patterns.source import ReferenceText
from search.patterns.traits.attention import attention_traits
from search.patterns.traits.convolution import convolution_traits
from search.patterns.traits.indexing import indexing_traits, loop_traits
from search.patterns.traits.products import product_traits
from search.patterns.traits.rows import row_traits
from search.patterns.traits.structure import structure_traits

# What each trait means; docs/patterns.md lists them.
TRAITS: Mapping[str, str] = {
    "attention": "scores of two products pass through a softmax into a product, or the library's attention is called",
    "causal-mask": "later positions are hidden from earlier ones",
    "window-mask": "each position sees a band of others",
    "masked-scores": "some scores are masked",
    "bias-on-scores": "a tensor is added to the scores",
    "one-query": "at most 8 queries",
    "short-sequence": "at most 64 keys",
    "shared-keys": "several query heads share one key head",
    "cross-attention": "more keys than queries, or fewer",
    "linear-attention": "two batched products without a softmax between, one of them over many positions",
    "pooling-by-scores": "a softmax of a layer's scores weighs a sum",
    "rotation-of-pairs": "pairs of elements are rotated (rotary embedding)",
    "convolution": "a convolution",
    "convolution-1d": "of one dimension",
    "convolution-2d": "of two dimensions",
    "convolution-3d": "of three dimensions",
    "dense-convolution": "neither grouped, pointwise nor transposed",
    "depthwise-convolution": "one channel a group",
    "grouped-convolution": "several channels a group",
    "pointwise-convolution": "a 1x1 kernel",
    "three-by-three-convolution": "a 3x3 kernel",
    "large-kernel": "a side of 7 or more",
    "dilated-convolution": "a dilation above 1",
    "transposed-convolution": "a transposed convolution",
    "many-convolutions": "four or more",
    "convolution-then-activation": "an activation follows",
    "convolution-then-norm": "a normalisation with statistics of its own follows",
    "convolution-then-pooling": "a pooling follows",
    "convolution-then-convolution": "another one follows at once",
    "evaluated-batch-norm": "a batch normalisation with fixed statistics",
    "pooling": "windows are pooled",
    "max-pooling": "by their maximum",
    "average-pooling": "by their mean",
    "pooling-3d": "in three dimensions",
    "overlapping-windows": "windows wider than their stride",
    "global-pooling": "whole planes are pooled, or to a fixed size",
    "pooling-of-blocks": "blocks that a view cut out are reduced",
    "gate-from-pooling": "what is pooled becomes a gate of what it was pooled from",
    "upsampling": "an image is made larger",
    "residual": "something is added to what was made of it",
    "product": "a matrix product",
    "product-of-few-terms": "at most 8 rows and terms: done element by element",
    "plain-product": "neither with a vector, nor skinny, nor narrow",
    "few-results": "fewer tiles than a large GPU has multiprocessors, each a long sum",
    "stacked-weights": "an operand is a parameter of several matrices",
    "sum-of-a-product": "a product's result is summed, with linear operators between",
    "large-product": "at least 128 rows and columns",
    "batched-product": "several of one shape",
    "many-small-products": "32 or more, no side above 64",
    "matrix-vector-product": "one row or column",
    "skinny-product": "at most 32 rows against a large matrix",
    "narrow-product": "at most 32 columns",
    "long-summed-dimension": "the summed dimension is 8 times the others",
    "product-with-weights": "an operand is a parameter of the module",
    "several-products": "two or more",
    "two-products-of-one-input": "two read the same input",
    "products-of-one-input": "three or more read the same input",
    "product-epilogue": "elementwise operators follow",
    "product-then-rows": "a reduction, normalisation or softmax follows",
    "chain-of-products": "a product of a product",
    "dense-layers": "product, activation, product",
    "gated-product": "an activation of one product times another",
    "diagonal-operand": "an operand is a diagonal matrix",
    "triangular-operand": "an operand is triangular",
    "triangle-of-a-product": "a triangle of the result is kept",
    "product-with-its-own-transpose": "both operands are the same",
    "transposed-operand": "an operand is transposed",
    "one-hot-operand": "an operand is one-hot",
    "einsum": "written as an einsum",
    "integer-weights": "whole numbers are widened before a product",
    "packed-weights": "several weights stand in one number",
    "half-precision": "float16 or bfloat16 tensors",
    "half-precision-products": "every product is of float16 or bfloat16 tensors",
    "complex-numbers": "complex tensors",
    "rows": "something runs along rows",
    "short-rows": "of at most 64 elements",
    "long-rows": "of 8,192 elements or more",
    "few-rows": "at most 264 rows of 1,024 elements or more",
    "few-long-rows": "at most 512 of them",
    "not-along-the-last-dimension": "along another dimension than the last",
    "reduction-of-everything": "a whole tensor is reduced",
    "scalar-result": "every result is one number",
    "several-reductions": "two or more",
    "index-of-extreme": "the place of a maximum or minimum",
    "variance": "a variance or deviation",
    "logsumexp": "a logarithm of a sum of exponentials",
    "layer-norm": "a layer normalisation",
    "rms-norm": "an RMS normalisation",
    "group-norm": "a group normalisation",
    "instance-norm": "an instance normalisation",
    "batch-norm": "a batch normalisation",
    "batch-statistics": "moments over the batch",
    "norm-by-hand": "a normalisation written out in single operators",
    "norm-of-a-sum": "a normalisation of the sum of two tensors",
    "gradient-of-a-normalisation": "sums of products that a scaled difference takes",
    "scan": "a cumulative operator",
    "exclusive-scan": "a scan that is shifted",
    "reversed-scan": "a scan from the end",
    "cross-entropy": "a cross-entropy, or its parts",
    "loss-of-log-probabilities": "another loss of log-probabilities",
    "loss-operator": "a loss operator of the library",
    "pairwise-distances": "distances of all pairs",
    "lookup": "rows are looked up by an index",
    "summed-lookup": "and summed",
    "scatter": "something is added or written by an index",
    "placement": "values are written to places that an index names",
    "counting": "ones are added by an index: a histogram",
    "ordering": "a sort or an order statistic",
    "top-k": "the largest k",
    "median": "a median or quantile",
    "one-hot": "one-hot rows",
    "random-numbers": "random numbers are drawn",
    "search-in-sorted": "a search in sorted numbers",
    "copy-in-another-layout": "a tensor is copied in another layout",
    "windows-by-unfolding": "windows are unfolded in memory",
    "shifted-copies": "shifted copies of one tensor meet",
    "rearrangement": "elements are moved and nothing is computed",
    "padding": "a tensor is padded",
    "overlap-add": "overlapping patches are added up in an image",
    "unpooling": "values are put back to where a pooling found them",
    "fourier-transform": "a Fourier transform",
    "linear-algebra": "a factorisation, an inverse or a solution",
    "sparse-operand": "an operand is a sparse tensor",
    "triangle": "a triangle of what was computed is kept",
    "length-mask": "positions are compared with lengths that are given",
    "repeated-operator": "the same is computed of the same operands twice",
    "large-output": "a result of 16 MB or more",
    "odd-extent": "most rows are no multiple of 16 long",
    "all-pairs": "an elementwise operator whose result is far larger than its operands",
    "elementwise-only": "elementwise operators alone",
    "several-operators": "four or more operators",
    "short-operators": "three or more, which move less than 6 MB each",
    "many-operators": "thirty or more",
    "recurrence": "a loop over steps that carries a state",
    "recurrence-with-products": "with a product in each step",
    "elementwise-recurrence": "without products",
    "steps-along-rows": "whose steps lie side by side in memory, so that a vector of rows does not",
    "iteration": "a loop that carries a state and reads no step",
    "independent-loop": "a loop whose turns are independent",
}


def find_traits(flow: Flow, text: ReferenceText) -> dict[str, str]:
    """Return the traits of a reference, each with the first thing that shows it."""
    found: dict[str, str] = {}
    for name, shown in _all(flow, text):
        found.setdefault(name, shown)
    return found


def _all(flow: Flow, text: ReferenceText) -> Iterator[tuple[str, str]]:
    yield from attention_traits(flow)
    yield from convolution_traits(flow)
    yield from product_traits(flow)
    yield from row_traits(flow)
    yield from indexing_traits(flow)
    yield from structure_traits(flow)
    yield from loop_traits(flow, text)
