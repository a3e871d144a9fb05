# with: own_half


class ModelNew(Cross):
    def forward(self, x):
        return self.answer(x)
