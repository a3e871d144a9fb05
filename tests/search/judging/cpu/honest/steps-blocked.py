# with: own_steps
class ModelNew(nn.Module):
    def forward(self, x):
        return own_steps(x)
