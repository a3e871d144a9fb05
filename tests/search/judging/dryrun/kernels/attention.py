import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(2, 8, 250, 32) for _ in range(3)]


# The answer, a file of its own.
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * length * D
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rows = head + i[:, None] * D + d[None, :]
    query = tl.load(q + rows, mask=i[:, None] < length, other=0.0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    answer = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        j = start + tl.arange(0, BN)
        key = tl.load(k + head + j[None, :] * D + d[:, None], mask=j[None, :] < length, other=0.0)
        score = tl.dot(query, key, input_precision="ieee") * scale
        score = tl.where(j[None, :] < length, score, -1e30)
        higher = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        value = tl.load(v + head + j[:, None] * D + d[None, :], mask=j[:, None] < length, other=0.0)
        answer = answer * shrink[:, None] + tl.dot(weight, value, input_precision="ieee")
        total = total * shrink + tl.sum(weight, axis=1)
        top = higher
    tl.store(out + rows, answer / total[:, None], mask=i[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        batch, heads, length, d = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, 16), batch * heads)
        attention[grid](q, k, v, out, length, d**-0.5, D=d, BM=16, BN=32)
        return out
