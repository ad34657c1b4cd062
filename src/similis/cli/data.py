"""``similis data show | check | words``: what a data set holds, its faults, how similar its names are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from similis.cli.json_output import Outcome, Result
from similis.cli.options import AllowCounts, Device, Root, Size, Source, Verify, Weights
from similis.cli.screen import print_lines, show_table
from similis.values import UserError

if TYPE_CHECKING:
    from similis.data.manifest import Manifest
    from similis.model.model import Model


def show(
    *, source: Source = "", root: Root = None, allow_counts: AllowCounts = False, verify: Verify = False
) -> Result:
    """Show parts, counts and fingerprint of a data set; without one, list the known data sets."""
    from similis.data.catalogue import describe_counts, known
    from similis.data.open_data import open_data

    if not source:
        rows = [
            (e.name, "; ".join(f"{k} {describe_counts(v)}" for k, v in e.counts.items()) or "as asked", e.summary)
            for e in known
        ]
        show_table(f"known data sets ({len(rows)})", ("name", "official counts", "what it is"), rows)
        return {"datasets": [dict(zip(("name", "counts", "summary"), row, strict=True)) for row in rows]}
    manifest = open_data(source, root=root, allow_counts=allow_counts, verify=verify)
    shown = show_parts(manifest)
    columns, fingerprint = manifest.table.column_names, manifest.fingerprint()
    print_lines(f"columns      {', '.join(columns)}", f"fingerprint  {fingerprint}")
    return {**shown, "columns": columns, "fingerprint": fingerprint}


def show_parts(manifest: Manifest) -> dict[str, Any]:
    """Show a table of the parts with their images and classes; return the same as values."""
    from similis.data.catalogue import count_parts

    parts = count_parts(manifest)
    rows = [(part, str(c.images), str(c.classes), spread(manifest, part)) for part, c in parts.items()]
    show_table(f"{manifest.name}: {len(manifest)} images", ("part", "images", "classes", "images of a class"), rows)
    return {"name": manifest.name, "images": len(manifest), "parts": parts}


def spread(manifest: Manifest, part: str) -> str:
    """Fewest, mean and most images of a class in one part."""
    import torch

    sizes = manifest.labels[torch.tensor([held == part for held in manifest.parts])].bincount()
    sizes = sizes[sizes > 0]
    return f"{int(sizes.min())} to {int(sizes.max())}, mean {float(sizes.float().mean()):.1f}"


def check(
    *,
    source: Source,
    root: Root = None,
    allow_counts: AllowCounts = False,
    smallest_class: Annotated[int, typer.Option(help="Report classes with fewer images.", min=1)] = 2,
    verify: Verify = False,
    model: Annotated[
        str | None,
        typer.Option(help="Run or network whose embeddings find near-duplicates, wrong labels and outliers. [none]"),
    ] = None,
    weights: Weights = "pretrained",
    size: Size = None,
    out: Annotated[Path, typer.Option(help="Folder for the list and the contact sheets.")] = Path("suspects"),
    pictures: Annotated[bool, typer.Option(help="Draw contact sheets.")] = True,
    device: Device = "auto",
) -> Outcome:
    """Count classes; find unreadable images, tiny or empty classes, duplicates, shared classes; exit 1 on errors.

    With --model, images are compared by their embeddings too; what is suspected is listed and is no error.
    """
    from similis.data.check import check_data
    from similis.data.open_data import open_data

    manifest = open_data(source, root=root, allow_counts=allow_counts, verify=verify)
    findings = check_data(manifest, smallest_class=smallest_class)
    shown = show_parts(manifest)
    errors = sum(finding.severity == "error" for finding in findings)
    if findings:
        rows = [(finding.severity, finding.kind, finding.message, finding.remedy) for finding in findings]
        show_table(f"{manifest.name}: {len(findings)} findings", ("severity", "kind", "what", "what to do"), rows)
    print_lines(f"{len(manifest)} images checked: {errors} errors, {len(findings) - errors} warnings")
    listed = [{"severity": f.severity, "kind": f.kind, "message": f.message, "remedy": f.remedy} for f in findings]
    result = {**shown, "errors": errors, "warnings": len(findings) - errors, "findings": listed}
    if model is not None and not any(finding.kind == "unreadable" for finding in findings):
        from similis.model.load import ModelChoice

        print_lines(f"embedding {len(manifest)} images with {model}")
        opened = ModelChoice(model, weights, size, device).open()
        result["suspects"] = check_embeddings(manifest, opened, model, out, pictures)
    return Outcome(result, 1 if errors else 0)


def check_embeddings(manifest: Manifest, model: Model, name: str, out: Path, pictures: bool) -> dict[str, Any]:
    """What the embeddings of a model find: counts on the screen, a list and contact sheets in a folder."""
    from similis.model.fault_report import FILE, count_kinds, write_faults

    faults = model.find_faults(manifest)
    files = write_faults(faults, out, manifest, pictures=pictures)
    counts = count_kinds(faults)
    rows = [(kind, str(found), str(left)) for kind, (found, left) in counts.items()]
    show_table(f"{manifest.name}: suspected by {name}", ("kind", "found", "to be excluded"), rows)
    command = f"similis train ... --exclude {out / FILE}"
    print_lines(f"look at the sheets in {out}, correct the column 'exclude', then: {command}")
    return {"counts": {kind: {"found": f, "exclude": e} for kind, (f, e) in counts.items()}, "files": files}


def words(
    *,
    source: Source,
    out: Annotated[str, typer.Argument(help="A new file that ends in .safetensors.")],
    encoder: Annotated[str, typer.Option(help="A sentence-transformers model: its folder, or its name on the Hub.")],
    template: Annotated[str, typer.Option(help="The sentence of a class; {} is its name.")] = "a photo of a {}",
    root: Root = None,
    allow_counts: AllowCounts = False,
) -> Result:
    """Write the similarities of class names by a text encoder, for language guidance (objective.language)."""
    from similis.data.open_data import open_data
    from similis.networks.text import save_similarity, sentence_encoder, similarity_of_names

    if Path(out).suffix != ".safetensors":
        raise UserError(f"the file is {out!r}; give a name that ends in .safetensors")
    names = sorted(set(open_data(source, root=root, allow_counts=allow_counts).class_names))
    made = similarity_of_names(names, sentence_encoder(encoder), source=Path(encoder).name, template=template)
    digest = save_similarity(made, out)
    print_lines(f"{out}: {len(names)} classes, sha256 {digest}")
    return {"file": out, "classes": len(names), "sha256": digest}
