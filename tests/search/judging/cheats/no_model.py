# expect: build_failed | ModelNew
import torch
import torch.nn as nn
import torch.nn.functional as F

Model = nn.LayerNorm
