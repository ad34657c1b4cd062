"""The network as ONNX, for runtimes without Python; proved equal to the network before it is handed out."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor

from similis.networks.embedder import Embedder
from similis.values import DataError, import_extra

LARGEST = 1e-4  # difference of an embedding, on the scale of its largest value if that is above 1


def export_onnx(embedder: Embedder, images: Tensor) -> tuple[bytes, float]:
    """The bytes of an ONNX file, and the largest difference of its embeddings from the network's.

    The input ``images`` is what the network takes, (B, 3, S, S) after all preprocessing, with any B; the output is
    ``embeddings`` (B, D). ONNX Runtime computes the images given, and the first of them alone; a difference above 1e-4
    raises.

    Args:
        embedder: the network.
        images: (n, 3, S, S), or vectors (n, F) for a network of vectors.
    """
    for needed in ("onnx", "onnxscript"):
        import_extra(needed)
    runtime = import_extra("onnxruntime")
    network, images = copy.deepcopy(embedder).cpu().eval(), images.detach().cpu().contiguous()
    example = images[:2] if len(images) > 1 else images.repeat(2, *[1] * (images.ndim - 1))  # 1 would be a constant
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter about itself
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
            input_names=["images"],
            output_names=["embeddings"],
            verbose=False,
        )
        expected = network(images)
    assert program is not None  # it is None for the exporter before Dynamo
    made: bytes = program.model_proto.SerializeToString()
    session = runtime.InferenceSession(made, providers=["CPUExecutionProvider"])
    found = [torch.from_numpy(session.run(None, {"images": part.numpy()})[0]) for part in (images, images[:1])]
    gap = torch.cat([found[0] - expected, found[1] - expected[:1]]).abs().max()
    difference = float(gap / expected.abs().max().clamp(min=1))
    if not difference <= LARGEST:
        raise DataError(
            f"embeddings of the ONNX file differ from the network's by {difference:.1e}, and {LARGEST:g} is allowed; "
            "export without --onnx, or train a network that ONNX Runtime computes as PyTorch does"
        )
    return made, difference
