"""Fields of a form, typed for FastAPI, and the checks of names."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from fastapi import File, Form, UploadFile
from starlette.formparsers import MultiPartParser

from similis.serving.limits import LONGEST_NAME, MOST_NEIGHBOURS, Refusal

UNSHOWN = ("Cc", "Cs")  # control characters and surrogates
MultiPartParser.spool_max_size = 2**40  # uploads stay in memory: the guard has limited the body already

Image = Annotated[UploadFile, File(description="An image.")]
Name = Annotated[str | None, Form(min_length=1, max_length=LONGEST_NAME)]
Count = Annotated[int, Form(ge=1, le=MOST_NEIGHBOURS)]
Box = Annotated[str | None, Form(description="left,top,right,bottom as shares from 0 to 1.")]


def check_length(what: str, value: str) -> str:
    """An id or a label to look up: any text, for a collection may hold names that no new one may have."""
    if not 0 < len(value) <= LONGEST_NAME:
        raise Refusal(422, f"{what} has {len(value)} characters; give 1 to {LONGEST_NAME}")
    return value


def check_name(what: str, value: str) -> str:
    """An id or a label that is new: it can be kept, shown and typed."""
    check_length(what, value)
    kinds = {unicodedata.category(letter) for letter in value if not letter.isspace()}
    if not kinds - {"Cf"} or any(unicodedata.category(letter) in UNSHOWN for letter in value):
        raise Refusal(422, f"{what} is {value[:40]!r}; give a name of more than spaces, without control characters")
    return value
