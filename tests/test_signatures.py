"""The public interface is the one of ``tests/signatures.txt``: names with their signatures, verbs, keys of a spec.

After a change on purpose: ``python -m tests.test_signatures``, and a line in the changelog (docs/stability.md).
"""

import inspect
from pathlib import Path

import similis
from similis.cli import VERBS, function_at
from similis.registry import losses
from similis.run.spec import RunSpec

KEPT = Path(__file__).with_name("signatures.txt")


def signature(value):
    """Arguments with their kinds and defaults; annotations may be written differently."""
    try:
        whole = inspect.signature(value)
    except ValueError:  # an exception class has none of its own
        return "(...)"
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in whole.parameters.values()]
    return str(whole.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def interface():
    """A line for each thing that is public."""
    lines = []
    for name in sorted(similis._PUBLIC):
        value = getattr(similis, name)
        lines.append(f"similis.{name}{signature(value)}")
        if inspect.isclass(value) and not issubclass(value, Exception):
            own = {key: each for key, each in vars(value).items() if key[0] != "_" and inspect.isfunction(each)}
            lines += [f"similis.{name}.{key}{signature(each)}" for key, each in sorted(own.items())]
    lines += [f"similis.formula.{name}{signature(getattr(similis.formula, name))}"
              for name in sorted(similis.formula.__all__) if callable(getattr(similis.formula, name))]  # fmt: skip
    lines += [f"similis.losses.{entry.name}{signature(entry.function)}" for entry in losses]
    lines += [f"verb {verb}{signature(function_at(VERBS[verb]))}" for verb in sorted(VERBS)]
    return "\n".join([*lines, *(f"spec {key}" for key in spec_keys(RunSpec))]) + "\n"


def spec_keys(model, before=""):
    """The dotted keys of a specification."""
    for key, field in model.model_fields.items():
        kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
        inner = [each for each in kinds if hasattr(each, "model_fields")]
        yield from spec_keys(inner[0], f"{before}{key}.") if inner else [f"{before}{key}"]


def test_the_public_interface_is_the_kept_one():
    assert interface() == KEPT.read_text(encoding="utf-8"), (
        "the public interface changed; if on purpose, run python -m tests.test_signatures and name it in CHANGELOG.md"
    )


if __name__ == "__main__":
    KEPT.write_text(interface(), encoding="utf-8")
