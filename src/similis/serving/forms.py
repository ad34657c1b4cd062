"""Multipart bodies, held in memory, and their description for OpenAPI."""

from __future__ import annotations

import unicodedata
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from similis.serving.limits import Limits, Refusal

FIELDS = 300  # in one request
UNSHOWN = ("Cc", "Cs")  # control characters and surrogates
TRUTH = {"true": True, "1": True, "false": False, "0": False}
FILE = {"type": "string", "format": "binary"}


class MemoryParser(MultiPartParser):
    """A parser that writes no file: the guard has limited the body already."""

    spool_max_size = 2**40


class Form:
    """Fields of a multipart body; what is missing or wrong is refused with 422."""

    def __init__(self, data: FormData, limits: Limits) -> None:
        self.data, self.limits = data, limits

    async def file(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none of this name."""
        found = await self.files(name)
        return found[0] if found else None

    async def files(self, name: str) -> list[bytes]:
        """The bytes of all files of a name."""
        found = [each for each in self.data.getlist(name) if isinstance(each, UploadFile)]
        return [await each.read() for each in found]

    async def needed(self, name: str) -> bytes:
        """The bytes of a file that must be there."""
        found = await self.file(name)
        if found is None:
            raise Refusal(422, f"there is no file {name!r} in the form; send an image under this name")
        return found

    def text(self, name: str) -> str | None:
        """A field that holds a name to look up, or None where it is empty."""
        value = self.data.get(name)
        return check_length(name, value, self.limits) if isinstance(value, str) and value else None

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number between two others."""
        value = self.data.get(name, str(default))
        return parse_number(name, value if isinstance(value, str) else "a file", low, high)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(name, str(default))
        if not isinstance(value, str) or value.lower() not in TRUTH:
            raise Refusal(422, f"{name} is {str(value)[:80]!r}; give true or false")
        return TRUTH[value.lower()]


async def read_form(request: Request, limits: Limits) -> Form:
    """Read and take apart a multipart body."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refusal(415, "the body is not multipart/form-data; send a form with that encoding")
    parser = MemoryParser(request.headers, request.stream(), max_files=limits.files, max_fields=FIELDS)
    try:
        return Form(await parser.parse(), limits)
    except (MultiPartException, ValueError, LookupError) as error:
        raise Refusal(422, f"the form cannot be read ({error}); send another one") from error


def parse_number(name: str, text: str, low: float, high: float) -> float:
    """A number between two others; whole if both are."""
    whole = isinstance(low, int) and isinstance(high, int)
    try:
        value = int(text[:40]) if whole else float(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise Refusal(422, f"{name} is {text[:40]!r}; give {kind} from {low:g} to {high:g}")
    return value


def check_length(what: str, value: str, limits: Limits) -> str:
    """An id or a label to look up: any text, for a collection may hold names that no new one may have."""
    if not 0 < len(value) <= limits.name:
        raise Refusal(422, f"{what} has {len(value)} characters; give 1 to {limits.name}")
    return value


def check_name(what: str, value: str, limits: Limits) -> str:
    """An id or a label that is new: it can be kept, shown and typed."""
    check_length(what, value, limits)
    kinds = {unicodedata.category(letter) for letter in value if not letter.isspace()}
    if not kinds - {"Cf"} or any(unicodedata.category(letter) in UNSHOWN for letter in value):
        raise Refusal(422, f"{what} is {value[:40]!r}; give a name of more than spaces, without control characters")
    return value


def describe(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI description of a multipart body."""
    schema = {"type": "object", "properties": fields, "required": list(required)}
    if not required:
        del schema["required"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
