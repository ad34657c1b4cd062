"""The package uses public names of PyTorch only: a private hook may go with any release."""

import ast
from pathlib import Path

import similis

ROOT = Path(similis.__file__).parent
# the base class of batch norms; the operators over lists of tensors that optimisers are made of
WITHOUT_PUBLIC_NAME = ("batchnorm._BatchNorm", "torch._foreach_lerp_", "torch._foreach_copy_")


def private_names(source: str) -> list[str]:
    """Attributes ``torch._x`` (and deeper), and private attributes of storages and tensors that PyTorch owns."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            base = ast.unparse(node.value)
            if base == "torch" or base.startswith("torch.") or node.attr in {"_cdata", "_new_shared", "_version"}:
                found.append(f"{base}.{node.attr}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            found += [f"{node.module}:{a.name}" for a in node.names if a.name.startswith("_")]
            found += [node.module or ""] if "._" in (node.module or "") else []
    return found


def test_no_private_hook_of_torch_is_used():
    for path in sorted(ROOT.rglob("*.py")):
        found = [name for name in private_names(path.read_text()) if not name.endswith(WITHOUT_PUBLIC_NAME)]
        assert not found, f"{path.relative_to(ROOT)} uses {found}"


def test_the_search_finds_them():
    assert private_names("import torch\ntorch._C._current_graph_task_id()")
    assert private_names("from torch._C import x")
    assert private_names("storage._cdata")
    assert not private_names("self._x = torch.nn.Linear(1, 1)")
