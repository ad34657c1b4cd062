"""Models on the Hugging Face Hub: download the files of a repository, or upload a bundle with metadata in its card.

Nothing that a repository lists is trusted: only files with the names of a bundle are fetched, and they are checked as
those of any bundle, see :mod:`similis.model.bundle_files`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml

from similis.model import bundle_files
from similis.model.bundle_files import ABOUT, CARD, FILES, GALLERY, NEEDED
from similis.model.finished import finished
from similis.model.model_card import NO_RECORD, NOT_STATED, model_card, run_record
from similis.model.model_folder import write_gallery
from similis.retrieval.gallery import Contents
from similis.training.files import in_one_line
from similis.values import DataError, SimilisError, UserError, import_extra

SCHEME = "hf://"
ADDRESS = re.compile(rf"{SCHEME}([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
MOST_BYTES = 5 * 10**9  # of the files of a model
REMEDY = "log in with `hf auth login` and check the name"
LICENCES = ("apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0")  # by the Hub
RESULTS = re.compile(r"^\| this model \| ([\d.]+) \| (?:([\d.]+) to ([\d.]+))? ?\| ([\d.]+) \|$", re.MULTILINE)
METRICS = {  # the cells of that row
    "recall_at_1": "R@1 (%)", "recall_at_1_low": "R@1 (%), lower end of the 95 % interval over classes",
    "recall_at_1_high": "R@1 (%), upper end of the 95 % interval over classes", "map_at_r": "MAP@R (%)",
}  # fmt: skip


def parse_address(address: str) -> tuple[str, str | None]:
    """Repository and revision of an address; None for the main branch."""
    found = ADDRESS.fullmatch(address)
    if found is None or ".." in address:
        raise UserError(f"{address!r} given; write hf://owner/name or hf://owner/name@revision (branch, tag or commit)")
    return found[1], found[2]


@contextmanager
def open_download(address: str) -> Iterator[Path]:
    """A folder with the model of a repository, for as long as the block runs; an error in it names the address."""
    cached = download_files(address)
    with TemporaryDirectory(prefix="similis-", ignore_cleanup_errors=True) as folder:
        copy_files(cached, Path(folder))  # the cache of the Hub holds links, and a bundle holds none
        try:
            yield Path(folder)
        except (DataError, UserError) as error:
            raise type(error)(str(error).replace(folder, address)) from error


def download_files(address: str) -> Path:
    """The folder in the cache of the Hub with the files of a model; with HF_HUB_OFFLINE=1 what is there already."""
    repository, revision = parse_address(address)
    hub, offline = import_extra("huggingface_hub"), import_extra("huggingface_hub.constants").HF_HUB_OFFLINE
    remedy = "check the name, log in with `hf auth login` if it is private, or set HF_HUB_OFFLINE=1 to use the cache"
    remedy = "it is not in the cache; unset HF_HUB_OFFLINE to download it" if offline else remedy
    commit = None
    with explain_hub_errors(f"cannot download {address}", remedy):
        if not offline:
            info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
            commit = info.sha
            check_listing(address, commit, {file.rfilename: file.size for file in info.siblings or ()})
        cached = Path(hub.snapshot_download(repository, revision=revision, allow_patterns=list(FILES)))
    if commit not in (None, cached.name):  # the client falls back to an older copy in silence
        raise DataError(f"{address} changed from {commit} to {cached.name} while it was downloaded; try again")
    sizes = {file.name: file.stat().st_size for file in cached.iterdir()}
    check_sizes(address, sizes)
    return cached


def check_listing(address: str, commit: object, sizes: Mapping[str, int | None]) -> None:
    """Raise before anything is downloaded if a listing has names or sizes that no model has."""
    if not re.fullmatch("[0-9a-f]{40}", str(commit)):  # it becomes the name of a folder
        raise DataError(f"{address} names the commit {commit!r}, not 40 hexadecimal digits; use another repository")
    for name in sizes:
        path = PureWindowsPath(name)  # by whose rules drives and backslashes count on every system
        if path.anchor or ".." in path.parts or "\\" in name:
            allowed = "only relative names without '..', drives and backslashes are allowed; use another repository"
            raise DataError(f"{address} lists the file {name!r}, which may lead out of its folder; {allowed}")
    check_sizes(address, sizes)


def check_sizes(address: str, sizes: Mapping[str, int | None]) -> None:
    """Raise if a repository lacks a file that every model has, or its files are larger than any should be."""
    if missing := [name for name in NEEDED if name not in sizes]:
        raise DataError(
            f"{address} has no {missing[0]}; a model of Similis has {', '.join(NEEDED)}, and pickles are not read; "
            f"upload one with `similis export MODEL --to {SCHEME}owner/name`"
        )
    if (total := sum(max(size or 0, 0) for name, size in sizes.items() if name in FILES)) > MOST_BYTES:
        allowed = f"at most {MOST_BYTES:,} are allowed; download it with huggingface_hub yourself if you trust it"
        raise DataError(f"{address} has {total:,} bytes; {allowed}")


def push_model(
    model: Any, repository: str, *, private: bool = True, gallery: bool = False, licence: str = NOT_STATED
) -> str:
    """Upload a model to a repository of the Hub, which is made if it is not there; returns the URL of the commit.

    The card states the results of the model's run, if it comes from one, as ``model-index`` too.

    Args:
        model: a :class:`similis.Model`, whose module imports this one.
        repository: ``owner/name``.
        private: whether a new repository is private; one that is there stays as it is.
        gallery: upload ids, labels and vectors of the gallery too.
        licence: for the model card.

    Example:
        >>> import similis
        >>> similis.load("runs/photos-1").push("owner/name")  # doctest: +SKIP
        'https://huggingface.co/owner/name/commit/...'
    """
    check_repository(repository)
    record = NO_RECORD if model.folder is None else run_record(finished(model.folder))
    with TemporaryDirectory(prefix="similis-") as place:
        folder = model.save(place, card=model_card(model, record=record, licence=licence))
        return push_bundle(folder, repository, private=private, gallery=gallery)


def push_bundle(folder: Path, repository: str, *, private: bool = True, gallery: bool = False) -> str:
    """Upload the bundle in a folder, which stays as it is; see :func:`push_model`."""
    name = create_repository(repository, private=private, gallery=gallery)
    with TemporaryDirectory(prefix="similis-") as place:
        stage_upload(folder, Path(place), gallery)
        with explain_hub_errors(f"cannot upload to {SCHEME}{name}", REMEDY):
            api = import_extra("huggingface_hub").HfApi()
            done = api.upload_folder(repo_id=name, folder_path=place, delete_patterns=list(FILES))  # of an older model
    return str(done.commit_url)


def create_repository(repository: str, *, private: bool, gallery: bool) -> str:
    """Make a repository unless it is there; its name. Raises where a gallery would become public unasked."""
    name = check_repository(repository)
    with explain_hub_errors(f"cannot upload to {SCHEME}{name}", REMEDY):
        api = import_extra("huggingface_hub").HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        if gallery and private and not api.model_info(name).private:
            raise UserError(f"{SCHEME}{name} is public and the gallery was to be private; leave it out, or say public")
    return name


def check_repository(repository: str) -> str:
    """The name of a repository to upload to, after the client was found to be installed."""
    name, revision = parse_address(SCHEME + repository.removeprefix(SCHEME))
    if revision is not None:
        raise UserError(f"{repository!r} given; uploads go to the main branch: write {SCHEME}{name}")
    import_extra("huggingface_hub")
    return name


def stage_upload(folder: Path, staged: Path, gallery: bool) -> None:
    """Copy a bundle, without its gallery unless it is wanted, and put the metadata of the Hub before its card."""
    bundle_files.check_files(folder)
    copy_files(folder, staged)
    card, about = (staged / CARD).read_text(encoding="utf-8"), bundle_files.read_json(staged / ABOUT)
    if not gallery:
        none = Contents(torch.empty(0, bundle_files.read_shapes(staged / GALLERY)["vectors"][1][1]), [], 0)
        write_gallery(staged, none)
        (staged / bundle_files.THUMBNAILS).unlink(missing_ok=True)
        card = re.sub(r"^\| gallery \|.*$", "| gallery | not uploaded |", card, flags=re.MULTILINE)
    header = yaml.safe_dump(card_metadata(card, about), sort_keys=False, allow_unicode=True)
    (staged / CARD).write_text(f"---\n{header}---\n\n{card}", encoding="utf-8")
    bundle_files.write_checksums(staged)


def copy_files(folder: Path, out: Path) -> None:
    """Copy the files of a bundle, and nothing else that lies beside them."""
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


def card_metadata(card: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Library, task, licence and results of a card that :func:`similis.model.model_card.model_card` wrote."""
    task = "feature-extraction" if about["preprocessing"] is None else "image-feature-extraction"
    found: dict[str, Any] = {"library_name": "similis", "pipeline_tag": task, "tags": ["metric-learning", "retrieval"]}
    licence, data = read_cell(r"^\| licence \| (.*) \|$", card), read_cell(r"^(.*), sha256 `\w+`\.$", card)
    if licence not in ("", NOT_STATED):
        name = re.sub(r"[^a-z0-9.]+", "-", licence.lower()).strip("-")
        found |= {"license": name} if name in LICENCES else {"license": "other", "license_name": name}
    if row := RESULTS.search(card):
        cells = zip(METRICS.items(), row.groups(), strict=True)
        metrics = [{"type": key, "name": name, "value": float(cell)} for (key, name), cell in cells if cell]
        result = {"task": {"type": task}, "dataset": {"name": data, "type": data}, "metrics": metrics}
        found["model-index"] = [{"name": about["name"], "results": [result]}]
    return found


def read_cell(pattern: str, card: str) -> str:
    """What a pattern finds in a card, without the backslashes before its marks; "" where there is nothing."""
    found = re.search(pattern, card, re.MULTILINE)
    return "" if found is None else re.sub(r"\\(.)", r"\1", found[1])


@contextmanager
def explain_hub_errors(what: str, remedy: str) -> Iterator[None]:
    """Turn an error of the client inside the block into one sentence."""
    try:
        yield
    except SimilisError:
        raise
    except Exception as error:  # versions of the client differ in their HTTP library, and so in its errors
        raise DataError(f"{what} ({in_one_line(error)}); {remedy}") from error
