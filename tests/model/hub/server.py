"""A stand-in for the HTTP API of the Hugging Face Hub on loopback: repositories of models in memory."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".onnx", ".bin")  # kept by the LFS protocol


class Repository:
    """Commits of a repository, the last one its main branch, and what its listing claims against the truth."""

    def __init__(self, files: dict[str, bytes], private: bool = False) -> None:
        self.private, self.claimed, self.named = private, dict[str, int](), ""  # sizes, and the number of the commit
        self.commits: dict[str, dict[str, bytes]] = {}
        self.add({".gitattributes": b"", **files})

    def add(self, files: dict[str, bytes]) -> str:
        number = hashlib.sha1(repr((len(self.commits), sorted(files.items()))).encode()).hexdigest()
        self.commits[number] = files
        return number

    def listing(self, commit: str) -> list[dict]:
        sizes = {name: len(data) for name, data in self.commits[commit].items()} | self.claimed
        found = [{"path": name, "rfilename": name, "size": size} for name, size in sizes.items()]
        return [each | {"type": "file", "oid": hashlib.sha1(repr(each).encode()).hexdigest()} for each in found]


class Hub(ThreadingHTTPServer):
    """Serves until it is shut down; ``asked`` are methods and paths of all requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address, self.asked = f"http://127.0.0.1:{self.server_port}", list[str]()
        self.repositories, self.large = dict[str, Repository](), dict[str, bytes]()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = f"{self.command} {unquote(urlsplit(self.path).path)}"
        self.server.asked.append(asked)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        matches = ((re.fullmatch(pattern, asked), answer) for pattern, answer in ROUTES.items())
        found, answer = next((each for each in matches if each[0]), (None, None))
        return answer(self, *found.groups()) if found else self.give({"error": f"no route {asked}"}, 404)

    do_POST = do_PUT = do_HEAD = do_GET

    def give(self, body: object, code: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response_only(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else data)

    def create(self) -> None:
        asked, known = json.loads(self.body), self.server.repositories
        name, private = f"{asked['organization']}/{asked['name']}", asked.get("private")  # of older clients
        code = 409 if name in known else 200
        known.setdefault(name, Repository({}, private or asked.get("visibility") == "private"))
        self.give({"url": f"{self.server.address}/{name}"}, code)

    def preupload(self, name: str) -> None:
        modes = {e["path"]: "lfs" if e["path"].endswith(LARGE) else "regular" for e in json.loads(self.body)["files"]}
        self.give({"files": [{"path": p, "uploadMode": mode, "shouldIgnore": False} for p, mode in modes.items()]})

    def batch(self, name: str) -> None:
        place, given = f"{self.server.address}/put", json.loads(self.body)["objects"]
        found = [each | {"actions": {"upload": {"href": f"{place}/{each['oid']}"}}} for each in given]
        self.give({"transfer": "basic", "objects": found})

    def put(self, digest: str) -> None:
        self.server.large[digest] = self.body
        self.give({}, 200 if hashlib.sha256(self.body).hexdigest() == digest else 400)

    def commit(self, name: str) -> None:
        own = self.server.repositories[name]
        files = dict(own.commits[list(own.commits)[-1]])
        for kind, value in ((each["key"], each["value"]) for each in map(json.loads, self.body.splitlines()[1:])):
            large = self.server.large.get(value.get("oid"))
            files[value["path"]] = base64.b64decode(value.get("content", "")) if large is None else large
            if kind == "deletedFile":
                del files[value["path"]]
        number = own.add(files)
        self.give({"commitOid": number, "commitUrl": f"{self.server.address}/{name}/commit/{number}"})

    def read(self, name: str, kind: str, revision: str | None, file: str = "") -> None:
        """Facts, a listing, or one file of a repository at a commit."""
        own = self.server.repositories.get(name)
        commit = list(own.commits)[-1] if own and revision in (None, "main") else revision
        if own is None or commit not in own.commits:
            self.give({}, 404, X_Error_Code="RepoNotFound" if own is None else "RevisionNotFound")
        elif kind == "resolve":
            data = own.commits[commit][file]
            tag = {"X_Linked_Etag" if file.endswith(LARGE) else "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
            self.give(data, X_Repo_Commit=commit, X_Linked_Size=str(len(data)), **tag)
        else:
            files, counted = own.listing(commit), {"private": own.private, "downloads": 0, "likes": 0, "tags": []}
            facts = {"id": name, "sha": own.named or commit, "siblings": files, **counted}
            self.give(files if kind == "tree" else facts)


NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = {
    "POST /api/repos/create": Handler.create,
    "POST /api/validate-yaml": lambda handler: handler.give({}),
    f"POST /api/models/{NAME}/preupload/main": Handler.preupload,
    f"POST /{NAME}.git/info/lfs/objects/batch": Handler.batch,
    "PUT /put/(.*)": Handler.put,
    f"POST /api/models/{NAME}/commit/main": Handler.commit,
    f"GET /api/models/{NAME}/(tree)/([^/]+)": Handler.read,
    f"GET /api/models/{NAME}(?:/(revision)/([^/]+))?": Handler.read,
    f"(?:GET|HEAD) /{NAME}/(resolve)/([^/]+)/(.*)": Handler.read,
}
