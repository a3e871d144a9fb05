# with: own_growth
class ModelNew(nn.Module):
    def forward(self, x):
        return own_growth(x)
