"""Import a Python file that nobody installed: a loss that a researcher keeps beside the data."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from similis.values import UserError

MARK = ".py:"  # between the file and the function, as in ``my_loss.py:my_loss``


def split_place(name: str) -> tuple[Path, str]:
    """File and function of a place such as ``losses/mine.py:mine``.

    Example:
        >>> split_place("losses/mine.py:mine")[1]
        'mine'
    """
    file, _, function = name.rpartition(":")
    return Path(file).expanduser().resolve(), function


def content_hash(path: Path) -> str:
    """Hash of a file's bytes: an edited file is imported anew."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError:
        raise UserError(f"there is no file {path}; write FILE.py:FUNCTION, or the name of a registered loss") from None


def describe_failure(error: BaseException) -> str:
    """Kind and words of an error in one line.

    Example:
        >>> describe_failure(ValueError("not so"))
        'ValueError: not so'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())


def import_file(path: Path) -> ModuleType:
    """Execute a Python file as a module; files beside it can be imported, as from a script."""
    name = f"similis_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # what is registered looks up its source there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a file of others may fail in any way
        raise UserError(f"{path} cannot be imported: {describe_failure(error)}; correct the file") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
