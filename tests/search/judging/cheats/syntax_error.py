# expect: build_failed | line 6
import torch
import torch.nn as nn
import torch.nn.functional as F

def broken(:
