"""docs/guides/s3-sink.md does what it says: its settings, policy, commands, query and script are run as they stand there."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import boto3
import duckdb
import pytest

from harness import ROOT, Bucket, data_keys, free_port
from lake import Place, Pushed, assert_lake_right
from s3_proxy import Proxy
from sink_settings import FAST

sys.path.insert(0, str(ROOT / "scripts"))
import s3_server  # noqa: E402

GUIDE = (ROOT / "docs/guides/s3-sink.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.M | re.S)


def guide_settings(bucket: Bucket) -> dict[str, str]:
    """The guide's own settings; address and key are those of the server at hand."""
    settings = dict(line.split("=", 1) for line in blocks("ini")[0].splitlines())
    assert settings["QUEEN_S3_BUCKET"] == bucket.name
    return {**settings, "QUEEN_S3_ENDPOINT": bucket.about["endpoint"], "QUEEN_S3_ACCESS_KEY": bucket.about["accessKey"],
            "QUEEN_S3_SECRET_KEY": bucket.about["secretKey"]}


def shell(block: str, broker, directory: pathlib.Path) -> str:
    command = block.replace("localhost:6632", f"127.0.0.1:{broker.port}")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def local_copy(bucket: Bucket, directory: pathlib.Path) -> pathlib.Path:
    for key, body in bucket.objects("queen/").items():
        path = directory / "lake" / key.removeprefix("queen/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return directory / "lake"


@pytest.fixture
def shipped(make_broker, bucket, work):
    """A broker run by the guide's settings, closing windows fast; two windows of orders; a copy of the bucket."""
    broker = make_broker(**{**FAST, **guide_settings(bucket), "QUEEN_S3_ALIGN": "hour"}).start()
    pushed = Pushed("orders")
    texts = ['{"total":42.00}', '{\n "total": 1e2,\r\n "note": ",\\"payload\\":" }', "null", '{"total":123456789012345678901234567890}']
    for window in (1, 2):
        pushed.push(broker, [(f"cust {n % 2}\"", f"{window}.{n} é", text) for n, text in enumerate(texts)])
        broker.wait_sink("orders", lambda row: row["records"] == 4 * window)
    return broker, pushed, local_copy(bucket, work)


def test_a_window_goes_back_into_a_queue_and_a_second_time_changes_nothing(shipped, work):
    broker, pushed, _ = shipped
    (work / "restore.py").write_text(blocks("python")[0])
    restore = next(block for block in blocks("bash") if "restore.py" in block)
    assert shell(restore, broker, work).splitlines()[-1].endswith("{'queued': 8}")
    assert shell(restore, broker, work).splitlines()[-1].endswith("{'duplicate': 8}")
    restored = {}
    for partition in ('cust 0"', 'cust 1"'):
        entry = {"queue": "orders-again", "partition": partition, "offset": 0}
        raw = broker.post("/api/v1/fetch", {"entries": [entry]}).content.decode()
        records = json.loads(raw)["entries"][0]["records"]
        for record in records:
            restored[(partition, record["offset"])] = record["transactionId"]
        for (name, _), (_, payload) in pushed.records.items():
            text = re.sub("[\r\n]", " ", payload)
            assert name != partition or f'"payload":{text}' in raw, "the payload comes back as it was spelled"
    assert restored == {place: transaction_id for place, (transaction_id, _) in pushed.records.items()}


def test_the_query_reads_the_lake(shipped):
    _, pushed, lake = shipped
    connection = duckdb.connect()
    connection.execute(f"SET VARIABLE lake = '{lake}'")
    rows = connection.sql(next(block for block in blocks("sql") if block.startswith("SELECT"))).fetchall()
    assert [(row[3], row[4]) for row in rows] == sorted(pushed.records)
    assert {row[0] for row in rows} == {"orders"}
    assert [str(row[6]) for row in rows[:2]] == ["42.00", "None"]


def test_complete_through_reaches_the_end_of_an_hour_without_new_records(shipped, work):
    broker, _, _ = shipped
    ask = next(block for block in blocks("bash") if "completeThrough" in block)
    end = broker.sink_row("orders")["tEnd"]
    deadline = time.monotonic() + 20
    while not (found := shell(ask, broker, work).strip()) > end:
        assert time.monotonic() < deadline, found
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found)


def test_objects_and_requests_are_as_the_formula_says(make_broker, bucket):
    proxy = Proxy(bucket.about["endpoint"]).start()
    settings = {**bucket.settings("count"), **FAST, "QUEEN_S3_ENDPOINT": proxy.endpoint, "QUEEN_S3_CHECKPOINT_EVERY": "3"}
    broker = make_broker(**settings).start(QUEEN_S3_EMBEDDED="false")
    pushed = Pushed("count")
    pushed.some(broker, 5)
    assert broker.terminate() == 0
    broker.start()  # the queue is there, so that nothing is asked twice
    for window in range(1, 5):
        if window > 1:
            pushed.some(broker, 5)
        broker.wait_sink("count", lambda row: row["k"] == window and row["state"] == "filling")
    assert broker.terminate() == 0
    methods = [request.method for request in proxy.requests]
    assert {method: methods.count(method) for method in set(methods)} == {"GET": 1, "HEAD": 1, "PUT": 2 * 4 + 4 // 3}
    assert len(bucket.keys()) == 2 * 4 + 4 // 3
    proxy.requests.clear()
    broker.start()
    broker.wait_sink("count", lambda row: row["completeThrough"] is not None)
    # Probe, list of checkpoints, the newest of them, and the last manifest, whose path is compared with the alignment (HD-17).
    assert [request.method for request in proxy.requests] == ["GET"] * 4
    assert [("list-type" in request.path, "/checkpoint/" in request.path, "/windows/" in request.path)
            for request in proxy.requests][2:] == [(False, True, False), (False, False, True)]
    proxy.stop()


class StrictServer:
    """An S3 server that knows one user with the guide's policy."""

    def __init__(self):
        port = free_port()
        server = pathlib.Path(sys.executable).parent / "moto_server"
        self.process = subprocess.Popen([str(server), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL,
                                        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(s3_server.SETUP_CALLS)})
        s3_server.wait_for(port, self.process)
        endpoint = f"http://127.0.0.1:{port}"
        iam = s3_server.client("iam", endpoint, "setup", "setup")
        iam.create_user(UserName="queen")
        key = iam.create_access_key(UserName="queen")["AccessKey"]
        iam.put_user_policy(UserName="queen", PolicyName="bucket", PolicyDocument=blocks("json")[0])
        s3_server.client("s3", endpoint, "setup", "setup").create_bucket(Bucket="lake")
        self.bucket = Bucket.__new__(Bucket)
        self.bucket.name = "lake"
        self.bucket.about = {"endpoint": endpoint, "accessKey": key["AccessKeyId"], "secretKey": key["SecretAccessKey"]}
        self.bucket.client = s3_server.client("s3", endpoint, key["AccessKeyId"], key["SecretAccessKey"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def test_the_least_policy_is_enough(make_broker):
    """The actions; this server does not look at a policy's resources and conditions."""
    server = StrictServer()
    try:
        bucket, pushed = server.bucket, Pushed("orders")
        with pytest.raises(boto3.exceptions.botocore.exceptions.ClientError, match="AccessDenied"):
            bucket.client.delete_object(Bucket="lake", Key="queen/anything")
        settings = {**FAST, **guide_settings(bucket), "QUEEN_S3_COMPRESSION": "none", "QUEEN_S3_MULTIPART_THRESHOLD_MB": "5",
                    "QUEEN_S3_CHECKPOINT_EVERY": "1"}
        broker = make_broker(**settings).start()
        pushed.some(broker, 6, 3, 1_000_000)
        broker.wait_sink("orders", lambda row: row["records"] == 6)
        assert broker.terminate() == 0
        broker.start()
        pushed.some(broker, 6)
        broker.wait_sink("orders", lambda row: row["records"] == 6 and row["state"] == "filling")
        assert "checkpoint_unreadable" not in broker.log()
        assert len(data_keys(bucket.keys())) == 2
        assert_lake_right(bucket.objects(), Place("orders", align="none"), pushed.records)
    finally:
        server.close()
