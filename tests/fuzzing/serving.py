"""A chat endpoint that gives one reply to everything."""

from __future__ import annotations

import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

_replies: dict[str, tuple[int, bytes, bool]] = {}
_numbers = count()


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        return

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body, cut = _replies[self.path.split("/")[1]]
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) + 100 * cut))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            return


@cache
def _server() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def serve(status: int, body: bytes, *, cut: bool) -> str:
    """The address at which everything is answered with this; `cut` promises more than is sent."""
    name = str(next(_numbers))
    _replies[name] = (status, body, cut)
    return f"http://127.0.0.1:{_server().server_port}/{name}"
