"""The small network: widths, maps, independence of samples under group norm, and that it learns."""

import pytest
import torch
from torch.nn import functional

from similis.networks.embedder import build_embedder
from tests.networks.randomly import images


@pytest.mark.parametrize(("width", "channels", "millions"), [("narrow", 256, 1.17), ("wide", 512, 4.69)])
@pytest.mark.parametrize("size", [32, 64])
def test_maps(width, channels, millions, size):
    net = build_embedder(backbone="small_conv", dim=0, image_size=size, options={"width": width}).backbone
    assert net(images(2, size)).shape == (2, channels, size // 8, size // 8)
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)
    assert (net.preprocessing.size, net.preprocessing.resize) == (size, size)


@pytest.mark.parametrize(("norm", "depends"), [("batch", True), ("group", False)])
def test_only_batch_norm_lets_samples_see_each_other(norm, depends):
    net = build_embedder(backbone="small_conv", dim=0, options={"norm": norm}).backbone.train()
    x = images(4, 16)
    assert torch.allclose(net(x)[:2], net(x[:2]), atol=1e-4) != depends


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_it_learns_to_tell_stripes_apart(norm):
    """Upright and lying stripes with noise, from scratch in a few steps."""
    model = build_embedder(backbone="small_conv", dim=2, normalise=False, image_size=16, options={"norm": norm})
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def batch(seed):
        generator = torch.Generator().manual_seed(seed)
        stripes = (torch.arange(16) % 4 < 2).float().expand(16, 16)
        labels = torch.arange(16) % 2
        x = torch.where(labels[:, None, None] == 0, stripes, stripes.T)[:, None].expand(-1, 3, -1, -1)
        return x + 0.3 * torch.randn(x.shape, generator=generator), labels

    for step in range(24):
        x, labels = batch(step)
        loss = functional.cross_entropy(model(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x, labels = batch(99)
    assert float((model(x).argmax(1) == labels).float().mean()) == 1.0
