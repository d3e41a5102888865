"""A real broker process and what tests ask of it."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import boto3
import requests
import zstandard
from botocore.config import Config

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("QUEEN_BINARY", ROOT / "build/release/queen"))
TENANT = "00000000-0000-0000-0000-000000000001"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A test is one tenant that calls as fast as it can; the default rates are for tests of their own.
FAST = {f"QUEEN_KV_{kind}_{what}": "1000000" for kind in ("READ", "WRITE") for what in ("RATE", "BURST")} | {
    "QUEEN_EPHEMERAL_RATE": "1000000", "QUEEN_EPHEMERAL_BURST": "1000000"}


class Broker:
    """One broker on one data directory; settings are environment variables."""

    def __init__(self, directory: pathlib.Path, **settings: str):
        self.directory = pathlib.Path(directory)
        self.settings = settings
        self.port = free_port()
        self.log_path = self.directory.parent / f"{self.directory.name}.log"
        self.process: subprocess.Popen | None = None
        self.session = requests.Session()

    def environment(self, extra: dict[str, str]) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith("QUEEN_")}
        # The gate looks at the whole volume of the machine, which a test does not own.
        own = {"PORT": str(self.port), "QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_RAFT_DIR": str(self.directory),
               "QUEEN_RAFT_DISK_HIGH_PCT": "100", **FAST}
        return {**plain, **own, **self.settings, **extra}

    def spawn(self, **extra: str) -> "Broker":
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([str(BINARY)], env=self.environment(extra), stdout=log, stderr=subprocess.STDOUT)
        return self

    def start(self, timeout: float = 60, **extra: str) -> "Broker":
        self.spawn(**extra)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the broker ended at start with {self.process.returncode}:\n{self.log()[-3000:]}")
            try:
                if self.session.get(self.url("/health"), timeout=2).status_code == 200:
                    return self
            except requests.ConnectionError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"the broker is not ready:\n{self.log()[-3000:]}")

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill9(self) -> None:
        self.process.kill()
        self.process.wait()
        self.session = requests.Session()

    def terminate(self, timeout: float = 60) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self.session = requests.Session()
        return code

    def wait_exit(self, timeout: float = 60) -> int:
        code = self.process.wait(timeout)
        self.session = requests.Session()
        return code

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill9()

    # ---- calls ----

    def post(self, path: str, body, **kwargs) -> requests.Response:
        data = body if isinstance(body, (str, bytes)) else json.dumps(body)
        if isinstance(data, str):
            data = data.encode()
        return self.session.post(self.url(path), data=data, headers={"Content-Type": "application/json"}, timeout=60, **kwargs)

    def get(self, path: str, **params) -> requests.Response:
        return self.session.get(self.url(path), params=params, timeout=90)

    def push(self, items: list[dict]) -> list[dict]:
        answer = self.post("/api/v1/push", {"items": items})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def pop(self, queue: str, partition: str | None = None, **params) -> dict | None:
        path = f"/api/v1/pop/queue/{queue}" + (f"/partition/{partition}" if partition else "")
        answer = self.get(path, **params)
        if answer.status_code == 204:
            assert answer.content == b""
            return None
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ack_all(self, popped: dict, group: str | None = None, status: str = "completed") -> list[dict]:
        body = {"acknowledgments": [{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                                     "leaseId": m["leaseId"], "status": status} for m in popped["messages"]]}
        if group:
            body["consumerGroup"] = group
        answer = self.post("/api/v1/ack/batch", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def fetch_all(self, queue: str, partition: str) -> list[dict]:
        records: list[dict] = []
        while True:
            answer = self.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": len(records),
                                                              "maxBytes": 8388608}]})
            assert answer.status_code == 200, answer.text
            entry = answer.json()["entries"][0]
            assert "error" not in entry, entry
            if not entry["records"]:
                assert entry["highWatermark"] == len(records)
                return records
            records += entry["records"]

    def sink_row(self, queue: str) -> dict | None:
        status = self.get("/status").json()
        for sink in status.get("s3", {}).get("sinks", []):
            for row in sink.get("queues", []):
                if row["name"] == queue:
                    return row
        return None

    def wait_sink(self, queue: str, condition, timeout: float = 60) -> dict:
        deadline = time.monotonic() + timeout
        row = None
        while time.monotonic() < deadline:
            row = self.sink_row(queue)
            if row is not None and condition(row):
                return row
            time.sleep(0.1)
        raise AssertionError(f"the sink does not get there: {row}\n{self.log()[-2000:]}")


class Bucket:
    """A real S3 server that checks signatures, and a reader of the bucket."""

    def __init__(self, name: str = "lake", kind: str = "moto"):
        self.kind = kind
        self.process = subprocess.Popen([sys.executable, str(ROOT / "scripts/s3_server.py"), name, "--kind", kind],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = json.loads(self.process.stdout.readline())
        self.name = name
        self.client = boto3.client("s3", endpoint_url=self.about["endpoint"], region_name="us-east-1",
                                   aws_access_key_id=self.about["accessKey"], aws_secret_access_key=self.about["secretKey"],
                                   config=Config(s3={"addressing_style": "path"}))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)

    def settings(self, queues: str, prefix: str = "queen", **more: str) -> dict[str, str]:
        return {"QUEEN_S3_EMBEDDED": "true", "QUEEN_S3_QUEUES": queues, "QUEEN_S3_ENDPOINT": self.about["endpoint"],
                "QUEEN_S3_REGION": "us-east-1", "QUEEN_S3_PATH_STYLE": "true", "QUEEN_S3_BUCKET": self.name,
                "QUEEN_S3_ACCESS_KEY": self.about["accessKey"], "QUEEN_S3_SECRET_KEY": self.about["secretKey"],
                "QUEEN_S3_PREFIX": prefix, "QUEEN_S3_START": "earliest", **more}

    def keys(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix):
            found += [item["Key"] for item in page.get("Contents", [])]
        return sorted(found)

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        return {key: self.get(key) for key in self.keys(prefix)}


def data_keys(keys) -> list[str]:
    return [key for key in keys if "/_queen/" not in key]


def window_keys(keys) -> list[str]:
    return [key for key in keys if "/windows/" in key]


def lines_of(data: bytes) -> list[str]:
    text = zstandard.ZstdDecompressor().decompressobj().decompress(data).decode()
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]
