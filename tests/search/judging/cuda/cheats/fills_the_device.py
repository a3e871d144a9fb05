# expect: crashed|refused memory-hog | memory
# with: own_norm
"""Takes all memory of the device, so that nobody else can work."""


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "hoard"):
            self.hoard = []
            size = 1 << 34
            while size >= 1 << 21:
                try:
                    self.hoard.append(torch.empty(size, dtype=torch.uint8, device=x.device))
                except torch.OutOfMemoryError:
                    size //= 2
        return own_norm(x, self.norm)
