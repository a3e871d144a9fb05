# with: own_relu
class ModelNew(Relu):
    def forward(self, x):
        return own_relu(x)
