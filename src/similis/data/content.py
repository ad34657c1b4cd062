"""Hashes of image files: every file is read once, then its hash is found by the file's version in a cache.

The cache is one JSON file per data set in the folder that the environment variable SIMILIS_CACHE names, by
default ``similis`` in the user's cache folder. Deleting it costs one more reading and changes no result.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from similis.values import DataError

VARIABLE = "SIMILIS_CACHE"
SETTLED_SECONDS = 2.0  # the coarsest clock among file systems in use
THREADS = 8
_SLICE = 64  # files of one task: a task for each file would cost more than a small file's hash
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Version(NamedTuple):
    """What changes when a file does.

    Attributes:
        mark: differs between versions of a file.
        settled: whether a later change is sure to show in the mark. Not so for a file that was written a moment
            ago: another write within the same tick of the file system's clock would leave its times as they are.
    """

    mark: str
    settled: bool


def digest_of(data: bytes) -> str:
    """The hash of an image's bytes: BLAKE2b, 128 bits, in hexadecimal.

    Example:
        >>> digest_of(b"similis")
        'b3fdeca7778e6af6a5c18cd67f403487'
    """
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def version_of(facts: os.stat_result) -> Version:
    """The version of a local file: its size, inode and times."""
    now, times = time.time(), (facts.st_mtime, facts.st_ctime)
    mark = f"{facts.st_size}-{facts.st_ino}-{facts.st_mtime_ns}-{facts.st_ctime_ns}"
    return Version(mark, all(abs(now - changed) >= SETTLED_SECONDS for changed in times))


def known_digests(
    place: str,
    names: Sequence[str],
    versions: Mapping[str, Version],
    compute: Callable[[list[str]], Mapping[str, str]],
    *,
    verify: bool,
) -> list[str]:
    """The hash of every name: from the cache where the version is the one that was hashed, else computed and kept.

    ``place`` is the folder, archive or table that the names belong to; ``verify`` computes every hash anew.
    """
    file = cache_file(place)
    kept = {} if verify else read_cache(file)
    found = {name: kept[name][1] for name in versions if name in kept and kept[name][0] == versions[name].mark}
    missing = [name for name in versions if name not in found]
    if missing:
        found |= compute(missing)
    entries = {name: [versions[name].mark, found[name]] for name in missing if versions[name].settled}
    if entries:
        write_cache(file, {**kept, **entries})
    return [found[name] for name in names]


def cache_file(place: str) -> Path:
    """Where the hashes of a folder, archive or table are kept."""
    absolute = place if "://" in place else os.path.realpath(place)
    return cache_folder() / "content" / f"{digest_of(os.fsencode(absolute))}.json"


def cache_folder() -> Path:
    """The folder that SIMILIS_CACHE names, or ``similis`` in the user's cache folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "similis"
    except RuntimeError:  # in some containers a user has no home
        return Path(tempfile.gettempdir()) / "similis"


def read_cache(file: Path) -> dict[str, list[str]]:
    """Name -> version and hash; nothing where the file is missing or damaged."""
    try:
        kept = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(kept, dict):
        return {}
    return {name: pair for name, pair in kept.items() if isinstance(pair, list) and [*map(type, pair)] == [str, str]}


def write_cache(file: Path, entries: Mapping[str, list[str]]) -> None:
    """Replace the file at once, so that another process reads the old or the new one; a failure costs only time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            part = Path(folder) / file.name
            part.write_text(json.dumps(entries))
            part.replace(file)
    except OSError as error:
        _log.warning("hashes of images are not kept in %s: %s", file.parent, error.strerror)


def for_each(function: Callable[[str], T], names: Sequence[str], where: str) -> dict[str, T]:
    """Call a function that reads one image for every name, in threads; one DataError counts those that fail."""
    found: dict[str, T] = {}
    wrong: dict[str, str] = {}

    def attempt(part: Sequence[str]) -> None:
        for name in part:
            try:
                found[name] = function(name)
            except (OSError, ValueError) as error:
                wrong[name] = getattr(error, "strerror", None) or str(error) or type(error).__name__

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(attempt, (names[start : start + _SLICE] for start in range(0, len(names), _SLICE))))
    if wrong:
        name = next(name for name in names if name in wrong)
        raise DataError(
            f"{len(wrong)} of {len(names)} images of {where!r} cannot be read, the first is {name!r} ({wrong[name]}); "
            "restore them, or remove them from the data"
        )
    return found
