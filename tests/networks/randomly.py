"""Networks with every tensor random, so that a layer in the wrong place cannot hide behind ones and zeros."""

import torch


def scramble(net, seed=0):
    """Random weights of a size that keeps signals alive; random but valid batch statistics."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        if name.endswith("running_var") or (value.ndim == 1 and name.endswith("weight")):
            value.uniform_(0.5, 1.5, generator=generator)
        elif value.ndim <= 1:
            value.normal_(0.0, 0.1, generator=generator)
        else:
            value.normal_(0.0, (2.0 / value[0].numel()) ** 0.5, generator=generator)
    return net


def images(batch, size, seed=0, dtype=torch.float32):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=dtype)
