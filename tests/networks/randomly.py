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


@torch.no_grad()
def check_port(net, theirs, features, *, without):
    """A network has the keys of its peer in their order, and its features; an odd size shows poolings at borders."""
    wanted = {key: value.shape for key, value in theirs.state_dict().items() if not key.startswith(without)}
    assert {key: value.shape for key, value in net.state_dict().items()} == wanted
    assert list(net.state_dict()) == list(wanted)
    for size in (224, 97):
        x = images(2, size)
        expected = features(x)
        assert expected.std() > 0.1
        assert torch.equal(net(x), expected)
        assert size != 224 or expected.shape == (2, 1024, 7, 7)
