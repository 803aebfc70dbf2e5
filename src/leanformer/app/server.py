"""The explorer's server: on this machine only, reading only, for its own page only."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast, get_args
from urllib.parse import parse_qsl, urlsplit

from leanformer import __version__
from leanformer.app.folders import Folder, Found
from leanformer.app.pages import page
from leanformer.models.catalogue import listed_names

HOST = "127.0.0.1"
USUAL_PORT = 8642
FIRST_MODEL = "vit_base_patch16_224"
"""What the design view shows first."""

Asked = Mapping[str, str]
Answer = Callable[[Asked], Any]

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Explorer:
    """The page of one folder, served until it is closed."""

    def __init__(self, folder: Path, port: int | None = None, first: str = FIRST_MODEL) -> None:
        """`port` None takes the usual one, or any that is free; `first` is the model that is shown first."""
        self.first = first
        self.folder = Folder(folder) if folder.is_dir() else None
        self.path = folder
        self._server = _listening(port)
        self._server.explorer = self
        self.answers: dict[str, Answer] = {
            "/api/folder": self._listed,
            "/api/model": self._model,
            "/api/formula": self._formula,
            "/api/emit": self._emit,
            "/api/study": self._study,
            "/api/run": self._run,
            "/api/record": self._record,
            "/api/measure": self._measure,
            "/api/paper": self._paper,
        }
        self._page: str | None = None
        self._tools: dict[str, Any] = {}
        self._making = threading.Lock()
        self._closing = threading.Event()
        self._warming = threading.Thread(target=self._warm_up, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        self._warming.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._warming.join()  # a thread inside PyTorch must not outlive the interpreter
        self._server.server_close()

    # What is answered. What needs PyTorch is imported with the first request for it.

    def page(self) -> str:
        if self._page is None:
            self._page = page(start_of(str(self.path), self.first))
        return self._page

    def _search(self) -> Found:
        if self.folder is None and self.path.is_dir():  # it was made since
            self.folder = Folder(self.path)
        return Found() if self.folder is None else self.folder.search()

    def _there(self) -> Folder:
        if self.folder is None:
            raise ValueError(f"the folder {self.path} does not exist yet")
        return self.folder

    def _listed(self, asked: Asked) -> Any:
        return vars(self._search()) | {"exists": self.folder is not None}

    def _designs(self) -> Any:
        from leanformer.app.designs import Designs

        with self._making:
            return self._tools.setdefault("designs", Designs(self.folder))

    def _model(self, asked: Asked) -> Any:
        return self._designs().model(asked["model"])

    def _formula(self, asked: Asked) -> Any:
        from leanformer.app.designs import setting_of

        return self._designs().closed_form(asked["model"], setting_of(asked))

    def _emit(self, asked: Asked) -> Any:
        from leanformer.designing.emit import Form

        if asked["form"] not in get_args(Form):
            raise ValueError(f"the form must be one of {', '.join(get_args(Form))}")
        stages = [[int(size) for size in stage.split("x")] for stage in asked["stages"].split(",")]
        return {"text": self._designs().emitted(asked["model"], stages, cast(Form, asked["form"]))}

    def _study(self, asked: Asked) -> Any:
        from leanformer.app import studies

        return studies.study(self._there(), asked["place"])

    def _run(self, asked: Asked) -> Any:
        from leanformer.app import studies

        return studies.run(self._there(), asked["place"])

    def _record(self, asked: Asked) -> Any:
        from leanformer.app.shown_records import shown

        return shown(self._there(), asked["place"])

    def _measure(self, asked: Asked) -> Any:
        from leanformer.app.measuring import Measuring

        with self._making:
            measuring = self._tools.setdefault("measuring", Measuring(self._there()))
        return measuring.measured(asked["place"])

    def _papers(self) -> Any:
        from leanformer.app.shown_records import Paper

        with self._making:
            return self._tools.setdefault("paper", Paper())

    def _paper(self, asked: Asked) -> Any:
        return self._papers().found(self.folder, self._search())

    def _warm_up(self) -> None:
        """Import what requests need, and count the first model, before anyone asks for it."""
        from leanformer.app import studies  # noqa: F401
        from leanformer.app.designs import setting_of

        designs = self._designs()
        for prepare in (designs.model, lambda name: designs.closed_form(name, setting_of({}))):
            if not self._closing.is_set():
                prepare(self.first)


def start_of(folder: str, first: str) -> dict[str, Any]:
    """What the page knows when it is opened. What needs PyTorch comes later."""
    return {"version": __version__, "folder": folder, "names": listed_names(), "first": first, "static": None}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    explorer: Explorer


def _listening(port: int | None) -> _Server:
    for wanted in (USUAL_PORT, 0) if port is None else (port,):
        try:
            return _Server((HOST, wanted), _Handler)
        except OSError as error:
            if wanted == 0 or port is not None:
                raise ValueError(f"port {wanted} cannot be used: {error.strerror}; choose another one") from error
    raise AssertionError("unreachable")


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "leanformer", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        explorer = cast(_Server, self.server).explorer
        if why := self._refused(explorer.port):
            self._send(HTTPStatus.FORBIDDEN, {"error": why})
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._write(HTTPStatus.OK, "text/html", explorer.page().encode())
        elif asked.path in explorer.answers:
            self._answer(explorer.answers[asked.path], dict(parse_qsl(asked.query, keep_blank_values=True)))
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is no such page"})

    def _only_get(self) -> None:
        self.close_connection = True  # what was sent with it is not read
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET is answered"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = _only_get  # noqa: N815

    def _refused(self, port: int) -> str:
        """Why a request is not answered: it must come from this page or from the address bar, and mean this server."""
        hosts = {f"{HOST}:{port}", f"localhost:{port}"}
        if self.headers.get_all("Host") not in [[host] for host in hosts]:
            return f"this server is {HOST}:{port}"
        if (origin := self.headers.get("Origin")) is not None and origin not in {f"http://{host}" for host in hosts}:
            return "requests from other sites are refused"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "requests from other sites are refused"
        return ""

    def _answer(self, answer: Answer, asked: Asked) -> None:
        try:
            self._send(HTTPStatus.OK, answer(asked))
        except KeyError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"the request lacks {error}"})
        except (ValueError, OSError) as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except Exception as error:  # a bug must not hang the page; the person sees what it was
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"})

    def _send(self, status: HTTPStatus, value: Any) -> None:
        self._write(status, "application/json", json.dumps(_finite(value), allow_nan=False).encode())

    def _write(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        try:
            self.send_response(status)
            for name, text in HEADERS.items():
                self.send_header(name, text)
            if kind != "text/html":  # the page states a policy of its own, with the digest of its code
                self.send_header("Content-Security-Policy", "default-src 'none'")
            else:
                self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):  # the page was closed meanwhile
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def _finite(value: Any) -> Any:
    """The value as strict JSON holds it: NaN is missing, infinities are words."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
