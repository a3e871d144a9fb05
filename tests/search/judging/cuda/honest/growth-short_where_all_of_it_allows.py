# with: own_growth
class ModelNew(Growth):
    def forward(self, x):
        low, high = torch.aminmax(x)
        return own_growth(x, short=bool((low >= 0) & (high <= 1)))
