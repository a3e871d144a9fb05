"""Several tasks on one budget: which of them the next round is spent on."""
