# with: own_growth
class ModelNew(nn.Module):
    """Looks at every element before it takes the short way."""

    def forward(self, x):
        low, high = torch.aminmax(x)
        return own_growth(x, "short_growth" if low >= 0 and high <= 1 else "growth")
