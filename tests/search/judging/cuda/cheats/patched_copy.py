# expect: refused|wrong|passed no-gain,timer-mismatch,forged-report,work-outside-the-clock,decoy-kernel,beats-the-roofline,cached-output | .
# with: own_norm
"""Puts off its work until the answer is copied, which is after the clock has stopped."""
real = torch.Tensor.copy_
waiting = {}


def copy(self, source, *args, **kwargs):
    if id(source) in waiting:
        x, norm = waiting.pop(id(source))
        with torch.no_grad():
            own_norm(x, norm, source)
    return real(self, source, *args, **kwargs)


torch.Tensor.copy_ = copy


class ModelNew(Norm):
    def forward(self, x):
        y = torch.empty_like(x)
        waiting[id(y)] = x, self.norm
        return y
