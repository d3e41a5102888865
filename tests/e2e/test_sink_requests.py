"""What the sink asks of the bucket in all its life, over which connection, and that nobody can read its secret afterwards."""

import pathlib
import re
import resource
import signal
import socket
import socketserver
import ssl
import subprocess
import threading
import time
import uuid

import pytest

from lake import Place, Pushed, assert_lake_right
from s3_proxy import Answer, Lie, Proxy
from sink_settings import FAST
from test_sink_crash import Retried, push_until_the_abort, wait_pointer

DATA = r"/dt="


@pytest.fixture
def proxy(bucket):
    made = Proxy(bucket.about["endpoint"]).start()
    yield made
    made.stop()


def settings_through(bucket, proxy, queue: str) -> dict[str, str]:
    return {**bucket.settings(queue), **FAST, "QUEEN_S3_ENDPOINT": proxy.endpoint}


def assert_judged(requests) -> None:
    """LIST only for the probe and the search for a checkpoint, DELETE only to give up a multipart upload."""
    for request in requests:
        path, _, query = request.path.partition("?")
        if request.method == "GET" and "list-type=2" in query:
            probe = "max-keys=1&" in query and query.endswith("prefix=queen/")
            search = re.search(r"prefix=queen/_queen/tenant=[^/]+/queue=[^/]+/checkpoint/(&|$)", query)
            assert probe or search, request.path
        elif request.method == "DELETE":
            assert re.fullmatch(r"uploadId=[^&]+", query) and DATA in path, request.path
        else:
            assert request.method in ("PUT", "GET", "HEAD", "POST"), request.method


def test_lists_only_to_probe_and_to_find_a_checkpoint_and_deletes_nothing(make_broker, bucket, proxy):
    settings = {**settings_through(bucket, proxy, "judged"), "QUEEN_S3_MULTIPART_THRESHOLD_MB": "5", "QUEEN_S3_COMPRESSION": "none"}
    broker = make_broker(**settings).start()
    place, pushed = Place("judged", align="none"), Pushed("judged")
    for _ in range(3):
        before = broker.sink_row("judged")
        pushed.some(broker, 6)
        broker.wait_sink("judged", lambda row: row["k"] > (before["k"] if before else 0))
    retried = Retried(pushed)
    for point in ("after_intent", "mid_upload", "after_upload", "before_commit", "after_commit"):
        assert broker.terminate() == 0 if point == "after_intent" else broker.kill9() is None
        broker.start(QUEEN_S3_CRASH_AT=point)
        push_until_the_abort(broker, lambda: retried.push(broker))
        broker.start()
        if retried.pending is not None:
            retried.push(broker)
        wait_pointer(broker, pushed, place, bucket)
    refused = Answer("PUT", r"partNumber=1", 1, 403, "AccessDenied")
    throttled = Answer("PUT", DATA, 2, 503, "SlowDown", retry_after=1)
    proxy.order(refused)
    pushed.some(broker, 6, 1, 1024 * 1024)  # one push has one stamp, so it stands in one window
    broker.wait_sink("judged", lambda row: row["state"] == "failed")
    assert refused.met == 1
    broker.kill9()
    proxy.order(throttled)
    broker.start()
    wait_pointer(broker, pushed, place, bucket)
    assert_lake_right(bucket.objects(), place, pushed.records)
    assert_judged(proxy.requests)
    methods = {request.method for request in proxy.requests}
    assert methods == {"PUT", "GET", "HEAD", "POST", "DELETE"}, "each kind was met"
    assert sum(request.method == "DELETE" for request in proxy.requests) == 1


def test_a_throttled_bucket_is_called_so_and_ends_no_state(make_broker, bucket, proxy):
    throttled = Answer("PUT", DATA, 3, 503, "SlowDown")
    broker = make_broker(**settings_through(bucket, proxy, "slow")).start()
    pushed = Pushed("slow")
    pushed.some(broker, 3)
    broker.wait_sink("slow", lambda row: row["k"] == 1)
    proxy.order(throttled)
    pushed.some(broker, 3)
    broker.wait_sink("slow", lambda row: row["state"] == "upload")
    broker.wait_sink("slow", lambda row: row["k"] == 2)
    assert throttled.left == 0 and broker.log().count("queue_restored") == 1
    assert_lake_right(bucket.objects(), Place("slow", align="none"), pushed.records)


def p99_of_push_and_pop(broker, pushed: Pushed, rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        before = time.monotonic()
        pushed.some(broker, 3)
        assert broker.pop(pushed.queue, "p 0", consumerGroup=uuid.uuid4().hex, subscriptionMode="all") is not None
        seconds.append(time.monotonic() - before)
    return sorted(seconds)[int(len(seconds) * 0.99)]


def test_a_bucket_that_lies_moves_no_client_and_ends_no_process(make_broker, bucket, proxy):
    broker = make_broker(**settings_through(bucket, proxy, "lies")).start()
    place, pushed = Place("lies", align="none"), Pushed("lies")
    honest = p99_of_push_and_pop(broker, pushed, 150)
    etag = [("ETag", '"%s"' % ("0" * 32))]
    for lies in (
        [Lie("PUT", DATA, 9, 200, etag)],
        [Lie("PUT", r"/windows/", 9, 200, etag)],
        [Lie("GET", r"/windows/", 3, 200, [], b"\xff{not a manifest"), Lie("GET", r"list-type=2.*checkpoint/", 9, 200, [], b"<html>"),
         Lie("PUT", DATA, 2, 500, [], b"<Error><Code>InternalError</Code>")],
        [Lie("GET", r"list-type=2.*checkpoint/", 9, 200, [], b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")],
    ):
        proxy.order(*lies)
        lying = p99_of_push_and_pop(broker, pushed, 150)
        assert lying < max(3 * honest, 0.25), (honest, lying)
        assert broker.process.poll() is None
        proxy.forget()
        assert broker.terminate() == 0
        broker.start()
    wait_pointer(broker, pushed, place, bucket)
    assert_lake_right(bucket.objects(), place, pushed.records)


def test_a_lost_fence_reaches_the_sink_and_nothing_is_written(make_broker, bucket):
    """Over the real state machine: another owner's row makes the next batch roll back as a whole."""
    settings = {**bucket.settings("fence"), **FAST, "QUEEN_S3_LEASE_TTL_MS": "60000"}
    broker = make_broker(**settings).start()
    pushed = Pushed("fence")
    pushed.some(broker, 3)
    broker.wait_sink("fence", lambda row: row["k"] == 1 and row["state"] == "filling")
    before = bucket.objects()
    other = {"instance": "node-9@elsewhere", "incarnation": "00000000000000aa", "sinceMs": 1}
    put = {"op": "put", "ns": "queen-s3", "key": "s3:default:fence:lease", "value": other, "ttlSeconds": 60}
    assert broker.post("/api/v1/kv", {"operations": [put]}).json()["results"][0]["applied"] is True
    pushed.some(broker, 3)
    row = broker.wait_sink("fence", lambda row: row["state"] == "fenced")
    assert "precondition" in row["lastError"]["message"] or "lease" in row["lastError"]["message"]
    assert bucket.objects() == before

    def rows() -> dict:
        body = {"operations": [{"op": "getPrefix", "ns": "queen-s3", "prefix": "s3:default:fence:", "limit": 10}]}
        return {row["key"]: row["value"] for row in broker.post("/api/v1/kv", body).json()["results"][0]["rows"]}

    found = rows()
    assert found["s3:default:fence:lease"] == other, "another owner's row is left alone"
    assert found["s3:default:fence:intent"]["k"] == 1 and found["s3:default:fence:committed"]["k"] == 1
    assert broker.post("/api/v1/push", {"items": [{"queue": "fence", "payload": 1}]}).status_code == 201


# ---- the secret ----

@pytest.fixture
def cores(work, monkeypatch):
    """Core files are written, into a directory of the test's own. Gives a function that takes the newest one away."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"this machine writes core files elsewhere: {pattern}")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    monkeypatch.chdir(work)

    def take() -> bytes:
        found = list(work.glob(f"{pattern.split('%')[0]}*"))
        assert len(found) == 1, f"core files: {found}"
        body = found[0].read_bytes()
        found[0].unlink()
        return body

    yield take
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def everything_said(broker) -> bytes:
    paths = ("/status", "/health", "/metrics", "/metrics/prometheus", "/api/v1/resources/queues")
    return b"\n".join(broker.session.get(broker.url(path)).content for path in paths)


def test_the_secret_is_in_no_log_status_metric_object_or_core_file(make_broker, bucket, proxy, cores):
    secret, access_key = bucket.about["secretKey"].encode(), bucket.about["accessKey"].encode()
    wrong = f"wrong/{uuid.uuid4().hex}/{uuid.uuid4().hex[:8]}"
    settings = {**settings_through(bucket, proxy, "hush"), "LOG_LEVEL": "debug"}
    broker = make_broker(**settings)
    said = []

    # Refused at boot: one setting is missing beside the secret, or impossible.
    for change in ({"QUEEN_S3_BUCKET": ""}, {"QUEEN_S3_MAX_WINDOW_MS": "50"}, {"QUEEN_S3_QUEUES": ""}):
        broker.spawn(**change)
        assert broker.wait_exit(30) != 0
    # Refused by the bucket, killed by SIGABRT while it asks again.
    broker.start(QUEEN_S3_SECRET_KEY=wrong)
    deadline = time.monotonic() + 30
    while "SignatureDoesNotMatch" not in broker.get("/status").text:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    said.append(everything_said(broker))
    broker.process.send_signal(signal.SIGABRT)
    assert broker.wait_exit() == -signal.SIGABRT
    refused = cores()
    # Errors of every kind while it ships, then an abort of its own.
    pushed, place = Pushed("hush"), Place("hush", align="none")
    proxy.order(Answer("PUT", DATA, 1, 503, "SlowDown"), Answer("PUT", DATA, 1, 400, "RequestTimeout"))
    broker.start()
    pushed.some(broker, 6)
    broker.wait_sink("hush", lambda row: row["k"] == 1)
    proxy.order(Answer("PUT", DATA, 1, 403, "AccessDenied"))
    pushed.some(broker, 6)
    broker.wait_sink("hush", lambda row: row["state"] == "failed")
    said.append(everything_said(broker))
    broker.kill9()
    broker.start(QUEEN_S3_CRASH_AT="after_upload")
    assert broker.wait_exit() == -signal.SIGABRT
    aborted = cores()
    broker.start()
    wait_pointer(broker, pushed, place, bucket)
    broker.process.send_signal(signal.SIGSEGV)
    assert broker.wait_exit() == -signal.SIGSEGV
    fault = cores()

    for name, core in (("refused", refused), ("aborted", aborted), ("fault", fault)):
        assert access_key in core, f"{name}: the search finds what is there"
        assert b"QUEEN_S3_SECRET_KEY=" in core
        for hidden in (secret, wrong.encode()):
            assert core.count(hidden) == 0, name
            half = len(hidden) // 2
            assert core.count(hidden[:half]) == 0 and core.count(hidden[half:]) == 0, f"{name}: half of it"
    said += [broker.log().encode(), *bucket.objects().values()]
    for text in said:
        for hidden in (secret, wrong.encode()):
            assert hidden not in text
    assert_lake_right(bucket.objects(), place, pushed.records)


# ---- TLS and proxies (HD-9) ----

def make_certificate(work: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    key, certificate = work / "key.pem", work / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lake.test",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
                   check=True, capture_output=True)
    return key, certificate


class Tunnel(socketserver.ThreadingTCPServer):
    """TLS in front of a plain server; with `connect`, a proxy that knows CONNECT only. Counts its connections."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, target: int, context: ssl.SSLContext | None = None, connect: bool = False):
        self.target, self.context, self.connect, self.asked = target, context, connect, []
        super().__init__(("127.0.0.1", 0), TunnelHandler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class TunnelHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        near = self.request
        target = self.server.target
        try:
            if self.server.context is not None:
                near = self.server.context.wrap_socket(near, server_side=True)
            if self.server.connect:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += near.recv(4096)
                asked = head.split(b" ")[1].decode()
                self.server.asked.append(asked)
                target = int(asked.rsplit(":", 1)[1])
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far = socket.create_connection(("127.0.0.1", target))
            thread = threading.Thread(target=self.copy, args=(far, near), daemon=True)
            thread.start()
            self.copy(near, far)
            thread.join(10)
        except OSError:
            pass  # a client that does not trust the certificate, or went away

    @staticmethod
    def copy(source: socket.socket, to: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        finally:
            try:
                to.shutdown(socket.SHUT_WR)
            except OSError:
                pass


@pytest.fixture
def tls(work, bucket):
    key, certificate = make_certificate(work)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tunnel = Tunnel(int(bucket.about["endpoint"].rsplit(":", 1)[1]), context)
    yield tunnel, certificate
    tunnel.stop()


def test_tls_is_checked_against_the_authorities_that_are_named_and_nothing_else(make_broker, bucket, tls):
    tunnel, certificate = tls
    settings = {**bucket.settings("tls"), **FAST, "QUEEN_S3_ENDPOINT": f"https://localhost:{tunnel.port}", "NO_PROXY": "*"}
    broker = make_broker(**settings).start()
    pushed = Pushed("tls")
    pushed.some(broker, 3)
    deadline = time.monotonic() + 40
    while (found := broker.get("/status").json()["s3"]["sinks"][0]["bucket"])["reachable"] is not False:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "TLS failure" in found["error"] and "SSL_CERT_FILE" in found["error"], found["error"]
    assert bucket.keys() == []
    assert broker.terminate() == 0
    broker.start(SSL_CERT_FILE=str(certificate))
    broker.wait_sink("tls", lambda row: row["records"] == 3)
    assert_lake_right(bucket.objects(), Place("tls", align="none"), pushed.records)


def test_the_proxy_of_the_environment_is_used_except_where_it_says_not_to(make_broker, bucket, tls):
    tunnel, certificate = tls
    relay = Tunnel(0, connect=True)
    try:
        endpoint = f"https://localhost:{tunnel.port}"
        settings = {**bucket.settings("via"), **FAST, "QUEEN_S3_ENDPOINT": endpoint, "SSL_CERT_FILE": str(certificate),
                    "HTTPS_PROXY": f"http://127.0.0.1:{relay.port}", "NO_PROXY": "", "no_proxy": "", "https_proxy": ""}
        broker = make_broker(**settings).start()
        pushed = Pushed("via")
        pushed.some(broker, 3)
        broker.wait_sink("via", lambda row: row["records"] == 3)
        assert relay.asked and set(relay.asked) == {f"localhost:{tunnel.port}"}
        assert broker.terminate() == 0
        met = len(relay.asked)
        broker.start(NO_PROXY="localhost")
        pushed.some(broker, 3)
        broker.wait_sink("via", lambda row: row["records"] == 3)
        assert len(relay.asked) == met
        assert_lake_right(bucket.objects(), Place("via", align="none"), pushed.records)
    finally:
        relay.stop()
