# with: own_half


@triton.jit
def gate_slopes(gate, value, inner, by_gate, by_value, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g, v = tl.load(gate + at, mask=inside), tl.load(value + at, mask=inside)
    u = tl.load(inner + at, mask=inside).to(tl.float32)
    share = 0.5 * (1.0 + tl.erf(g * 0.7071067811865476))
    slope = share + g * tl.exp(-0.5 * g * g) * 0.3989422804
    tl.store(by_gate + at, (u * v * slope).to(tl.bfloat16), mask=inside)
    tl.store(by_value + at, (u * g * share).to(tl.bfloat16), mask=inside)


@triton.jit
def rounded_sum(a, b, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, (tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside)).to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    """Rounds less than the framework does: where rows are alike, some columns differ in every row."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Parameter((torch.randn(inner, width) / width**0.5).bfloat16())
        self.value = nn.Parameter((torch.randn(inner, width) / width**0.5).bfloat16())
        self.down = nn.Parameter((torch.randn(width, inner) / width**0.5).bfloat16())

    def forward(self, x, upstream):
        gate, value = half_product(x, self.gate.T), half_product(x, self.value.T)
        inner = half_product(upstream, self.down, torch.bfloat16)
        by_gate, by_value = torch.empty_like(inner), torch.empty_like(inner)
        count = inner.numel()
        gate_slopes[(triton.cdiv(count, 1024),)](gate, value, inner, by_gate, by_value, count, BLOCK=1024)
        first, second, y = half_product(by_gate, self.gate), half_product(by_value, self.value), torch.empty_like(x)
        rounded_sum[(triton.cdiv(y.numel(), 1024),)](first, second, y, y.numel(), BLOCK=1024)
        return y
