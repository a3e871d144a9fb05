from pathlib import Path

import pytest
from traced import traced

from search.costs.graph import Work
from search.costs.work import count_work

SQUARE = "torch.randn(64, 64)"
N = 64
PRODUCT = 2 * N**3
MATRIX = 4 * N * N  # bytes


def work(folder: Path, forward: str, inputs: str, init: str = "pass") -> Work:
    found = count_work(traced(folder, forward, inputs, init))
    assert 0 <= found.sure_flops <= found.flops
    assert 0 <= found.sure_bytes <= found.bytes
    return found


# What an honest program leaves out: its floor must not count that.
SPARED = {
    "associates": ("return (x @ y) @ z", f"torch.randn(64, 2), torch.randn(2, 64), {SQUARE}"),
    "through a scale": ("return (0.5 * (x @ y)) @ z", f"{SQUARE}, {SQUARE}, {SQUARE}"),
    "diagonal": ("return torch.diag(x) @ y", f"torch.randn(64), {SQUARE}"),
    "triangle": ("return torch.tril(x) @ y", f"{SQUARE}, {SQUARE}"),
    "mask made": ("return (x * (torch.arange(64) < 4).float()) @ y", f"{SQUARE}, {SQUARE}"),
    "mask chosen": ("return torch.where(torch.arange(64) < 4, x, 0.0) @ y", f"{SQUARE}, {SQUARE}"),
    "window": (
        "i = torch.arange(64); m = (i[:, None] - i[None]).abs() < 4; return ((x @ y.T) * m) @ z",
        f"{SQUARE}, {SQUARE}, {SQUARE}",
    ),
    "causal": ("return F.scaled_dot_product_attention(x, y, z, is_causal=True)", f"{SQUARE}, {SQUARE}, {SQUARE}"),
    "one row": ("return (x @ y)[0].exp()", f"{SQUARE}, {SQUARE}"),
    "summed": ("return (x @ y).sum()", f"{SQUARE}, {SQUARE}"),
    "averaged": ("return F.avg_pool2d((x @ y)[None, None], 8)", f"{SQUARE}, {SQUARE}"),
    "repeated rows": ("return x.expand(64, 64) @ y", f"torch.randn(1, 64), {SQUARE}"),
    "rank one": ("return (x[:, None] * y[None, :]) @ z", f"torch.randn(64), torch.randn(64), {SQUARE}"),
    "one-hot": ("return F.one_hot(x, 64).float() @ y", f"torch.randint(0, 64, (64,)), {SQUARE}"),
    "reducible einsum": ("return torch.einsum('ij,kl->il', x, y)", f"{SQUARE}, {SQUARE}"),
    "written over": ("p = x @ y; p[:, 1:] = 0.0; return p", f"{SQUARE}, {SQUARE}"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARED)
def test_arithmetic_that_can_be_spared_is_not_counted(tmp_path: Path, name: str) -> None:
    assert work(tmp_path, *SPARED[name]).sure_flops <= PRODUCT / N


# Products that every program has to make, and how many.
NEEDED = {
    "one": ("return x @ y", f"{SQUARE}, {SQUARE}", 1.0),
    "views": ("return (x.T.contiguous() @ y.reshape(64, 64)).T", f"{SQUARE}, {SQUARE}", 1.0),
    "a layer on a layer": ("return torch.relu(x @ y) @ z", f"{SQUARE}, {SQUARE}, {SQUARE}", 2.0),
    "gated": ("a, b = (x @ y).chunk(2, -1); return F.silu(a) * b", f"{SQUARE}, {SQUARE}", 1.0),
    "twice the same": ("return torch.relu(x @ y) + torch.sigmoid(x @ y)", f"{SQUARE}, {SQUARE}", 1.0),
    "the sum of two": ("return x @ y + x @ z", f"{SQUARE}, {SQUARE}, {SQUARE}", 1.0),
    "symmetric": ("return x @ x.T", SQUARE, 0.5),
    "some rows": ("return torch.relu(x @ y)[:32]", f"{SQUARE}, {SQUARE}", 0.5),
    "of normalised rows": ("return F.layer_norm(x, (64,)) @ y", f"{SQUARE}, {SQUARE}", 1.0),
    "einsum": ("return torch.einsum('ji,kj->ik', x, y)", f"{SQUARE}, {SQUARE}", 1.0),
    "attention": ("return F.scaled_dot_product_attention(x, y, z)", f"{SQUARE}, {SQUARE}, {SQUARE}", 2.0),
    "joined": ("return torch.cat([x @ y, x @ z])", f"{SQUARE}, {SQUARE}, {SQUARE}", 2.0),
    "in place": ("p = x @ y; p.relu_(); return p", f"{SQUARE}, {SQUARE}", 1.0),
    "twice the same of a view": ("return torch.relu(x @ y.T) + torch.sigmoid(x @ y.T)", f"{SQUARE}, {SQUARE}", 1.0),
    "symmetric, computed twice": ("return x.exp() @ x.exp().T", SQUARE, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_products_that_cannot_be_spared_are_counted(tmp_path: Path, name: str) -> None:
    forward, inputs, products = NEEDED[name]
    assert work(tmp_path, forward, inputs).sure_flops == pytest.approx(products * PRODUCT)


# Convolutions, and the products that transforms of large tiles leave of them.
CONVOLVED = {
    "by transforms": ("return F.conv2d(x, y)", "torch.randn(1, 8, 16, 16), torch.randn(8, 8, 3, 3)", 8 * 8 * 14 * 14),
    "wide": ("return F.conv2d(x, y)", "torch.randn(1, 8, 16, 16), torch.randn(8, 8, 11, 11)", 8 * 8 * 6 * 6),
    "of points": ("return F.conv2d(x, y)", "torch.randn(1, 8, 16, 16), torch.randn(8, 8, 1, 1)", 8 * 8 * 16 * 16),
    "over padding": ("return F.conv2d(x, y, padding='same')", "torch.randn(1, 1, 1, 1), torch.randn(64, 1, 11, 11)", 64),
    "turned and cropped": ("return F.conv_transpose1d(x, y, padding=5)", "torch.randn(1, 1, 1), torch.randn(1, 64, 11)", 64),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLVED)
def test_a_convolution_counts_as_the_fastest_algorithm_makes_it(tmp_path: Path, name: str) -> None:
    forward, inputs, products = CONVOLVED[name]
    assert work(tmp_path, forward, inputs).sure_flops == pytest.approx(2 * products)


# Bytes that have to move, in matrices.
MOVED = {
    "element by element": ("return x + y", f"{SQUARE}, {SQUARE}", 3.0),
    "rows": ("return torch.softmax(x, -1)", SQUARE, 2.0),
    "a product": ("return x @ y", f"{SQUARE}, {SQUARE}", 3.0),
    "a gelu by hand": ("return 0.5 * x * (1 + torch.tanh(x + 0.04 * x**3))", SQUARE, 2.0),
    "normalised by hand": ("return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)", SQUARE, 2.0),
    "half of the columns": ("return x[:, :32].exp()", SQUARE, 1.0),
    "both halves": ("a, b = x[:, :32], x[:, 32:]; return a * b", SQUARE, 1.5),
    "halves by chunk": ("a, b = x.chunk(2, 1); return a * b", SQUARE, 1.5),
    "every eighth": ("return x[:, ::8].exp()", SQUARE, 0.25),
    "a strided window": ("return F.max_pool2d(x[None, None], 1, 8)", SQUARE, 2 / 64),
    "a strided product": ("return F.conv2d(x[None, None], y, stride=8)", f"{SQUARE}, torch.randn(1, 1, 1, 1)", 2 / 64 + 1 / 4096),
    "a view": ("return x.T", SQUARE, 0.0),
    "zeros": ("return torch.zeros_like(x)", SQUARE, 0.0),
    "repeated": ("return torch.relu(x.expand(64, 64))", "torch.randn(1, 64)", 1 / 64),
    "not used": ("return x.exp()", f"{SQUARE}, {SQUARE}", 2.0),
    "looked up": ("return x[y]", f"{SQUARE}, torch.randint(0, 64, (64,))", 1.0),
    "under a mask": ("return torch.where(torch.arange(64) < 4, x, y)", f"{SQUARE}, {SQUARE}", 1.0),
    "the triangle of a sum": ("return torch.tril(x + y)", f"{SQUARE}, {SQUARE}", 1.0),
    "one of two products": ("return torch.cat([x @ y, x @ z])[:64]", f"{SQUARE}, {SQUARE}, {SQUARE}", 1.0),
    "parts that overlap": ("return x[:, :32].exp() + x[:, 16:48]", SQUARE, 0.75 + 0.5),
    "the same part twice": ("return x[:, -32:].exp() + x[:, 32:]", SQUARE, 0.5 + 0.5),
    "every second, and the others": ("return x[::2] * x[1::2]", SQUARE, 1.0 + 0.5),
    "rows one by one": ("return torch.stack([x[0], x[-1], x[63]])", SQUARE, 5 / 64),
    "a part of overlapping parts": ("return x[:, :32][:, ::2].exp() + x[:, 16:32]", SQUARE, 0.25 + 0.25),
    "a diagonal": ("return torch.einsum('ii->i', x)", SQUARE, 2 / 64),
    "a diagonal in a product": ("return torch.einsum('ii,ij->j', x, y)", f"{SQUARE}, {SQUARE}", 1 + 2 / 64),
    "a chain with zeros": ("return torch.einsum('ij,jk,kl->il', x, y, torch.tril(z))", f"{SQUARE}, {SQUARE}, {SQUARE}", 1.0),
    "windows that leave a rest": ("return F.max_pool2d(x[None], 40)", SQUARE, (1600 + 1) / 4096),
    "a product that leaves a rest": ("return F.conv2d(x[None, None], y, stride=40)", f"{SQUARE}, torch.randn(1, 1, 40, 40)", (3200 + 1) / 4096),
    "taps that meet padding alone": ("return F.conv2d(x, y, padding=5)", "torch.randn(1, 1, 1, 1), torch.randn(64, 1, 11, 11)", 129 / 4096),
    "a crop": ("return F.pad(x, (32, -32))", SQUARE, 1.0),
    "stored once": ("return x.exp()", "torch.randn(1, 64).expand(64, 64)", 1 + 1 / 64),
    "windows stored once": ("return x.exp()", "torch.randn(127).unfold(0, 64, 1)", 1 + 64 / 4096),
    "to the power of zero": ("return x ** 0", SQUARE, 0.0),
    "plus nothing of": ("return torch.add(x, y, alpha=0)", f"{SQUARE}, {SQUARE}", 2.0),
    "nothing of, plus a product": ("return torch.addmm(x, y, z, beta=0)", f"{SQUARE}, {SQUARE}, {SQUARE}", 3.0),
    "plus no product": ("return torch.addmm(x, y, z, alpha=0)", f"{SQUARE}, {SQUARE}, {SQUARE}", 2.0),
    "minus itself": ("return torch.cat([x - x, y])", f"{SQUARE}, {SQUARE}", 2.0 + 1.0),
    "shares of one": ("return torch.softmax(x[..., None], -1)", SQUARE, 0.0),
    "rows that a loss may ignore": ("return F.cross_entropy(x, y)", f"{SQUARE}, torch.randint(0, 64, (64,))", 1 / 4096),
    "under a mask of whole numbers": ("return x * y", f"{SQUARE}, torch.randint(0, 2, (64, 64), dtype=torch.int32)", 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_only_bytes_that_have_to_move_are_counted(tmp_path: Path, name: str) -> None:
    forward, inputs, matrices = MOVED[name]
    assert work(tmp_path, forward, inputs).sure_bytes == pytest.approx(matrices * MATRIX)


def test_packed_weights_count_once_and_what_is_made_of_them_does_not(tmp_path: Path) -> None:
    init = (
        "self.register_buffer('words', torch.randint(0, 99, (64, 64), dtype=torch.int32)); "
        "self.register_buffer('scale', torch.rand(64, 1))"
    )
    found = work(tmp_path, "return x @ ((self.words - 7) * self.scale)", SQUARE, init)
    # The words and the result; under zeros of a scale x is not needed.
    assert found.sure_bytes == 2 * MATRIX
    assert found.sure_flops == 0


def test_bytes_of_weights_in_floating_point_are_told_apart(tmp_path: Path) -> None:
    init = "self.a = nn.Parameter(torch.rand(64, 64)); self.register_buffer('b', torch.rand(64, 1))"
    found = work(tmp_path, "return (x @ self.a).exp()", SQUARE, init)
    assert (found.sure_bytes, found.sure_weights) == (3 * MATRIX, MATRIX)
    assert work(tmp_path, "return x.exp() + self.b", SQUARE, init).sure_weights == 4 * N
    words = "self.register_buffer('words', torch.randint(0, 99, (64, 64), dtype=torch.int32))"
    found = work(tmp_path, "return x * (self.words - 7)", SQUARE, words)
    assert found.sure_weights == 0, "they are packed already"


def test_of_a_product_of_weights_only_the_smaller_form_counts(tmp_path: Path) -> None:
    init = "self.a = nn.Parameter(torch.rand(64, 2)); self.b = nn.Parameter(torch.rand(2, 64))"
    found = work(tmp_path, "return x + self.a @ self.b", SQUARE, init)
    assert found.sure_bytes == 2 * MATRIX + 2 * 4 * 64 * 2
    tall = "self.a = nn.Parameter(torch.rand(1, 640)); self.b = nn.Parameter(torch.rand(640, 1))"
    found = work(tmp_path, "return x + self.a @ self.b", SQUARE, tall)
    assert found.sure_bytes == 2 * MATRIX + 4
