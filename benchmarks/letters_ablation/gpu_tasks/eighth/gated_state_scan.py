import torch
from torch import nn

BATCH, HEADS, LENGTH, KEYS, VALUES, CHUNK = 4, 16, 2048, 128, 64, 128


class Model(nn.Module):
    """A matrix-valued state that each step fades by its own gate and adds a key-value product to, read by queries."""

    def forward(self, q, k, v, gate):
        batch, heads, length, keys = q.shape
        state = torch.zeros(batch, heads, keys, v.shape[-1], device=q.device)
        ahead = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
        logs = torch.nn.functional.logsigmoid(gate.float() + 4.0)
        parts = []
        for start in range(0, length, CHUNK):
            a, b, c, f = (t[:, :, start : start + CHUNK] for t in (q, k, v, logs))
            f = f.cumsum(-1)
            fade = (f[..., :, None] - f[..., None, :]).masked_fill(ahead, float("-inf")).exp()
            scores = (a @ b.transpose(-1, -2)).float() * keys**-0.5 * fade
            old = (a @ state.to(q.dtype)).float() * keys**-0.5 * f.exp()[..., None]
            parts.append((scores.to(v.dtype) @ c).float() + old)
            left = (b.float() * (f[..., -1:] - f).exp()[..., None]).to(b.dtype)
            state = state * f[..., -1:, None].exp() + (left.transpose(-1, -2) @ c).float()
        return torch.cat(parts, dim=2).to(v.dtype)


def get_inputs():
    q, k = (torch.randn(BATCH, HEADS, LENGTH, KEYS).bfloat16() for _ in range(2))
    v = torch.randn(BATCH, HEADS, LENGTH, VALUES).bfloat16()
    return [q, k, v, torch.randn(BATCH, HEADS, LENGTH).bfloat16()]


def get_init_inputs():
    return []
