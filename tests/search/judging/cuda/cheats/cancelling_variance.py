# expect: wrong | large mean
# with: own_norm
"""Takes the variance as the mean of squares less the squared mean, which cancels."""


@triton.jit
def one_pass(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    mean = tl.sum(value, 0) / columns
    variance = tl.maximum(tl.sum(value * value, 0) / columns - mean * mean, 0.0)
    scale = 1 / tl.sqrt(variance + eps)
    gain = tl.load(weight + at, mask=kept)
    shift = tl.load(bias + at, mask=kept)
    tl.store(y + row * columns + at, (value - mean) * scale * gain + shift, mask=kept)


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        one_pass[(rows,)](
            x, self.norm.weight, self.norm.bias, y, columns, self.norm.eps,
            BLOCK=triton.next_power_of_2(columns),
        )
        return y
