"""Stands between the broker and the S3 server and misbehaves on order.

Requests pass unchanged, with their own Host header, so the server still checks the broker's signatures."""

import http.client
import http.server
import re
import socket
import socketserver
import threading
import time
import typing
from urllib.parse import unquote, urlsplit

from harness import free_port

ERROR = "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>on order</Message><RequestId>proxy-1</RequestId></Error>"


class Seen(typing.NamedTuple):
    method: str
    path: str  # decoded, with the query
    headers: dict[str, str]
    at: float  # monotonic seconds


class Fault:
    """What happens to the next `times` requests of `method` whose decoded path matches `path`."""

    def __init__(self, method: str, path: str, times: int):
        self.method, self.path, self.left, self.met = method, re.compile(path), times, 0

    def matches(self, method: str, path: str) -> bool:
        return self.left > 0 and method == self.method and self.path.search(path) is not None

    def happen(self, handler: "Handler", body_length: int) -> None:
        raise NotImplementedError


class Answer(Fault):
    def __init__(self, method: str, path: str, times: int, status: int, code: str, retry_after: int | None = None):
        super().__init__(method, path, times)
        self.status, self.code, self.retry_after = status, code, retry_after

    def happen(self, handler: "Handler", body_length: int) -> None:
        handler.rfile.read(body_length)
        headers = [] if self.retry_after is None else [("Retry-After", str(self.retry_after))]
        handler.answer(self.status, headers, (ERROR % self.code).encode())


class Lie(Fault):
    """Answers `status` with `headers` and `body` at once, and does nothing."""

    def __init__(self, method: str, path: str, times: int, status: int, headers: list[tuple[str, str]], body: bytes = b""):
        super().__init__(method, path, times)
        self.status, self.headers, self.body = status, headers, body

    def happen(self, handler: "Handler", body_length: int) -> None:
        handler.rfile.read(body_length)
        handler.answer(self.status, self.headers, self.body)


class CloseInBody(Fault):
    """Reads half of the request's body and drops the connection."""

    def happen(self, handler: "Handler", body_length: int) -> None:
        handler.rfile.read(body_length // 2)
        handler.drop()


class LoseAnswer(Fault):
    """The request takes effect, its answer never comes."""

    def happen(self, handler: "Handler", body_length: int) -> None:
        handler.pass_on(handler.rfile.read(body_length))
        handler.drop()


class Hold(Fault):
    """The request is taken whole and takes effect `seconds` later, whoever still waits for it."""

    def __init__(self, method: str, path: str, times: int, seconds: float):
        super().__init__(method, path, times)
        self.seconds = seconds

    def happen(self, handler: "Handler", body_length: int) -> None:
        body = handler.rfile.read(body_length)
        time.sleep(self.seconds)
        handler.answer(*handler.pass_on(body))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args) -> None:
        pass

    def drop(self) -> None:
        self.close_connection = True

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.drop()

    def pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.proxy.target, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            dropped = ("connection", "transfer-encoding", "date", "server")
            return answer.status, [(n, v) for n, v in answer.getheaders() if n.lower() not in dropped], content
        finally:
            connection.close()

    def serve(self) -> None:
        proxy, length = self.server.proxy, int(self.headers.get("Content-Length", 0))
        fault = proxy.fault_for(self.command, unquote(unquote(self.path)), dict(self.headers.items()))
        if fault is not None:
            fault.happen(self, length)
        else:
            self.answer(*self.pass_on(self.rfile.read(length)))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], proxy: "Proxy"):
        super().__init__(address, Handler)
        self.proxy = proxy
        self.connections: list[socket.socket] = []

    def process_request(self, request, client_address) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, _request, _client_address) -> None:
        pass  # a connection that stop() broke

    def break_connections(self) -> None:
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed before


class Proxy:
    """Listens only between start() and stop(); the port is known before."""

    def __init__(self, target: str):
        self.target = urlsplit(target).netloc
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.faults: list[Fault] = []
        self.requests: list[Seen] = []
        self.lock = threading.Lock()
        self.server: Server | None = None

    def start(self) -> "Proxy":
        self.server = Server(("127.0.0.1", self.port), self)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.socket.close()  # server_close() would wait for requests that are held
            self.server.break_connections()
            self.server = None

    def order(self, *faults: Fault) -> None:
        with self.lock:
            self.faults += faults

    def forget(self) -> None:
        """No more faults."""
        with self.lock:
            self.faults.clear()

    def fault_for(self, method: str, path: str, headers: dict[str, str]) -> Fault | None:
        with self.lock:
            self.requests.append(Seen(method, path, headers, time.monotonic()))
            for fault in self.faults:
                if fault.matches(method, path):
                    fault.left -= 1
                    fault.met += 1
                    return fault
        return None
