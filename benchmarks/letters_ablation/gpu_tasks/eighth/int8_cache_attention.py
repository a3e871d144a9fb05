import torch
from torch import nn

BATCH, GROUPS, SHARE, TOKENS, CACHE, WIDTH = 16, 8, 4, 16, 4096, 128


class Model(nn.Module):
    """Attention of a few new tokens over a cache in eight bits, whose heads several query heads share."""

    def forward(self, q, k_codes, k_scale, v_codes, v_scale, lengths):
        batch, heads, tokens, width = q.shape
        k = (k_codes.float() * k_scale.float()).to(q.dtype)
        v = (v_codes.float() * v_scale.float()).to(q.dtype)
        shared = q.view(batch, k.shape[1], -1, width)
        scores = (shared @ k.transpose(-1, -2)).float() * width**-0.5
        past = torch.arange(k.shape[2], device=q.device) >= lengths[:, None]
        scores = scores.masked_fill(past[:, None, None, :], float("-inf"))
        return (torch.softmax(scores, -1).to(q.dtype) @ v).view(batch, heads, tokens, width)


def get_inputs():
    q = torch.randn(BATCH, GROUPS * SHARE, TOKENS, WIDTH).bfloat16()
    whole = (BATCH, GROUPS, CACHE, WIDTH)
    k, v = (torch.randint(-127, 128, whole, dtype=torch.int8) for _ in range(2))
    a, b = ((torch.rand(BATCH, GROUPS, CACHE, 1) * 0.03 + 0.01).bfloat16() for _ in range(2))
    return [q, k, a, v, b, torch.randint(CACHE // 2, CACHE + 1, (BATCH,))]


def get_init_inputs():
    return []
