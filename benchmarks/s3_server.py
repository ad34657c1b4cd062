"""An S3 server on loopback that counts reads: ``python -m benchmarks.s3_server OBJECTS``.

It fills a bucket with small images in folders of 1,000, prints its address, and at a line on its standard input prints
how many objects were read, and how often the one that was read most.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from PIL import Image
from werkzeug.serving import make_server


def fill(count: int) -> None:
    """Put images into the bucket ``photos``, without HTTP."""
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    store.create_bucket("photos", "us-east-1")
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(held := io.BytesIO(), format="png")
        store.put_object("photos", f"all/{number // 1000:04d}/{number:07d}.png", held.getvalue())


def main() -> None:
    """Serve until a line comes."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    fill(int(sys.argv[1]))
    reads, inner = Counter[str](), DomainDispatcherApplication(create_backend_app)

    def count(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if environment["REQUEST_METHOD"] == "GET" and path.endswith(".png"):
            reads[path] += 1
        answer: Iterable[bytes] = inner(environment, start)
        return answer

    server = make_server("127.0.0.1", 0, count, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.readline()
    print(json.dumps({"objects read": len(reads), "most reads of one": max(reads.values(), default=0)}), flush=True)


if __name__ == "__main__":
    main()
