# with: own_growth
class ModelNew(Growth):
    def forward(self, x):
        return own_growth(x)
