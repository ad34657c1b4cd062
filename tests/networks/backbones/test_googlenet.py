"""GoogLeNet: keys, features and input convention of torchvision's, with the same random weights."""

import pytest
import torch

from similis.networks.embedder import build_embedder
from similis.networks.weights import load_weights
from tests.networks.randomly import check_port, scramble

torchvision = pytest.importorskip("torchvision", reason="torchvision comes with the extra vision")


def peer(aux=False, convert=False):
    net = torchvision.models.googlenet(weights=None, aux_logits=aux, init_weights=False, transform_input=convert)
    return scramble(net).eval()


def features_of(net, x):
    found = []
    handle = net.inception5b.register_forward_hook(lambda module, ins, out: found.append(out))
    net(x)
    handle.remove()
    return found[0]


def ours(source):
    net = build_embedder(backbone="googlenet", dim=0).backbone.eval()
    report = load_weights(net, source.state_dict(), origin="peer", droppable=("fc", "aux1", "aux2"))
    return net, report


def test_keys_and_features():
    theirs = peer()
    check_port(ours(theirs)[0], theirs, lambda x: features_of(theirs, x), without="fc.")


def test_classifiers_of_a_file_are_dropped_and_reported():
    _, report = ours(peer(aux=True))
    assert {key.partition(".")[0] for key in report.dropped} == {"fc", "aux1", "aux2"}


@torch.no_grad()
def test_the_stated_preprocessing_is_what_the_published_weights_see():
    """torchvision feeds its pretrained network ImageNet-normalised images and converts them inside."""
    theirs = peer(convert=True)
    net, _ = ours(theirs)
    pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    mean, std = (torch.tensor(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    look = net.preprocessing
    own = (pixels * look.top - torch.tensor(look.mean)[:, None, None]) / torch.tensor(look.std)[:, None, None]
    assert torch.allclose(net(own), features_of(theirs, (pixels - mean) / std), atol=1e-4, rtol=1e-4)
    assert (look.size, look.resize, look.channels) == (224, 256, "rgb")
