# expect: wrong | 'spiked'
# task: growth
# with: own_growth
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.randint(256 * 512, (64,))

    def forward(self, x):
        some = x.flatten()[self.places]
        inside = bool(((some >= 0) & (some <= 1)).all())
        return own_growth(x, "short_growth" if inside else "growth")
