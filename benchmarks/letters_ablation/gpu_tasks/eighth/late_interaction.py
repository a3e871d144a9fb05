import torch
from torch import nn

QUERIES, TERMS, DOCUMENTS, PLACES, WIDTH = 32, 32, 1024, 128, 128


class Model(nn.Module):
    """A query's fit to a document: over its terms, the weighted sum of the best cosine with any valid place."""

    def forward(self, queries, importance, documents, lengths):
        a = torch.nn.functional.normalize(queries.float(), dim=-1).to(queries.dtype)
        b = torch.nn.functional.normalize(documents.float(), dim=-1).to(documents.dtype)
        near = a.flatten(0, 1) @ b.flatten(0, 1).T
        near = near.view(a.shape[0], a.shape[1], b.shape[0], b.shape[1])
        past = torch.arange(b.shape[1], device=b.device) >= lengths[:, None]
        best = near.masked_fill(past, float("-inf")).amax(-1)
        return (best.float() * importance.float()[..., None]).sum(1)


def get_inputs():
    queries = torch.randn(QUERIES, TERMS, WIDTH) + torch.randn(QUERIES, 1, WIDTH)
    documents = torch.randn(DOCUMENTS, PLACES, WIDTH) + torch.randn(DOCUMENTS, 1, WIDTH)
    importance = torch.rand(QUERIES, TERMS).bfloat16()
    lengths = torch.randint(PLACES // 2, PLACES + 1, (DOCUMENTS,))
    return [queries.bfloat16(), importance, documents.bfloat16(), lengths]


def get_init_inputs():
    return []
