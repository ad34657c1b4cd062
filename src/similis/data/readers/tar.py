"""Shards in the layout of WebDataset: members ``KEY.jpg`` and ``KEY.cls`` (or ``KEY.json``) of a tar are an item."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from similis.data.content import digest_of, for_each, known_digests
from similis.data.manifest import Manifest, from_columns
from similis.data.readers.folder import ENDINGS
from similis.data.sources import check_size, file_version
from similis.values import DataError

LABELS = (".cls", ".json")


class Place(NamedTuple):
    """Where the bytes of a member are in a shard."""

    shard: str
    offset: int
    size: int


@dataclass(frozen=True)
class TarSource:
    """Members of uncompressed tar files, read by their places, in any order."""

    folder: str
    places: dict[str, Place] = field(repr=False)

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The member's bytes."""
        shard, offset, size = self.places[path]
        check_size(size)
        with (Path(self.folder) / shard).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every member."""
        shards = {shard: file_version(str(Path(self.folder) / shard)) for shard, _, _ in self.places.values()}
        versions = {path: shards[self.places[path].shard] for path in paths}
        return known_digests(self.folder, paths, versions, self._compute, verify=verify)

    def _compute(self, names: list[str]) -> dict[str, str]:
        return for_each(lambda path: digest_of(self.read(0, path)), names, self.folder)


def holds_tars(place: str) -> bool:
    """Whether a place is a shard, or a folder that holds shards and no folders of classes."""
    path = Path(place)
    if path.suffix == ".tar" and path.is_file():
        return True
    return path.is_dir() and any(path.glob("*.tar")) and not any(each.is_dir() for each in path.iterdir())


def read_tars(place: str) -> Manifest:
    """A manifest of the items of one shard or of a folder of shards; their headers are read, not their images.

    The class of an item is the text of its ``.cls``, the ``label`` or ``class_name`` of its ``.json``, or the folder
    in its key.
    """
    shards = [Path(place)] if place.endswith(".tar") else sorted(Path(place).glob("*.tar"))
    folder, places, classes = shards[0].parent, {}, {}
    for shard in shards:
        for path, member, label in read_shard(shard):
            places[path] = Place(shard.name, member.offset_data, member.size)
            classes[path] = label
    names = sorted(set(classes.values()), key=lambda name: (not name.isdecimal(), len(name) * name.isdecimal(), name))
    numbers = {name: number for number, name in enumerate(names)}
    columns: dict[str, Sequence[Any]] = {
        "path": list(places),
        "label": [numbers[classes[path]] for path in places],
        "class_name": [classes[path] for path in places],
    }
    return from_columns(PurePosixPath(place).stem, columns, TarSource(str(folder), places))


def read_shard(shard: Path) -> Iterator[tuple[str, tarfile.TarInfo, str]]:
    """Path, member and class of every image in a shard."""
    try:
        with tarfile.open(shard, "r:") as archive:
            members = [member for member in archive if member.isfile()]
            labels = {key_of(m.name): read_label(archive, m) for m in members if Path(m.name).suffix in LABELS}
    except tarfile.TarError as error:
        raise DataError(f"{str(shard)!r} is no uncompressed tar file, or is cut short ({error})") from error
    for member in members:
        if Path(member.name).suffix.lower() in ENDINGS:
            label = labels.get(key_of(member.name)) or PurePosixPath(member.name).parent.name
            if not label:
                raise DataError(
                    f"{member.name!r} of {str(shard)!r} has no class; add {key_of(member.name)}.cls beside it"
                )
            yield f"{shard.name}/{member.name}", member, label


def key_of(name: str) -> str:
    """What the members of an item share: the name up to the first dot of its last part."""
    path = PurePosixPath(name)
    return str(path.parent / path.name.partition(".")[0])


def read_label(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    """The class in a member; empty if it names none."""
    file: Any = archive.extractfile(member)
    text = file.read().decode("utf-8", "replace").strip()
    if not member.name.endswith(".json"):
        return str(text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DataError(f"{member.name!r} is no JSON ({error}); make the shard again") from error
    return str(found.get("class_name", found.get("label", ""))) if isinstance(found, dict) else ""
