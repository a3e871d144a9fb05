# expect: build_failed | ZeroDivisionError
import torch
import torch.nn as nn
import torch.nn.functional as F

1 / 0
