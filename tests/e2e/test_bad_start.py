"""What a start refuses: settings that must not be guessed, a port in use. And what it only warns of."""

import socket
import time

import pytest
from harness import Broker

SECRET = "hunter2-do-not-show"
S3 = {"QUEEN_S3_EMBEDDED": "true", "QUEEN_S3_QUEUES": "orders", "QUEEN_S3_ENDPOINT": "http://127.0.0.1:9", "QUEEN_S3_REGION": "us-east-1",
      "QUEEN_S3_BUCKET": "lake", "QUEEN_S3_ACCESS_KEY": "AKIA", "QUEEN_S3_SECRET_KEY": SECRET}


def refusal(broker: Broker) -> str:
    """The text of the one line with which the start ended; nothing was made on the disk."""
    code = broker.spawn().wait_exit()
    log = broker.log()
    errors = [line for line in log.splitlines() if " ERROR " in line or "FATAL" in line]
    assert code == 1 and len(errors) == 1 and " ERROR boot: FATAL: " in errors[0], f"{code}\n{log}"
    assert not broker.directory.exists()
    assert SECRET not in log
    return errors[0].split("FATAL: ", 1)[1]


ENGINE = [
    ("QUEEN_LOG_JSON", "maybe"), ("QUEEN_TENANCY_HEADER", "2"), ("QUEEN_KV_TRUSTED_PROXY", "ja"), ("QUEEN_S3_EMBEDDED", "perhaps"),
    ("QUEEN_BIND_ADDR", "0.0.0.0:7000"), ("QUEEN_BIND_ADDR", ""), ("QUEEN_BIND_ADDR", "[::1]:7000"), ("QUEEN_BIND_ADDR", "localhost:80"),
    ("QUEEN_RAFT_PEERS", "1=a:1,2=b:1"), ("QUEEN_RAFT_NODE_ID", "0"), ("QUEEN_RAFT_NODE_ID", "-1"), ("QUEEN_RAFT_NODE_ID", "one"),
    ("QUEEN_RAFT_REPLICATOR", "paxos"),
]


@pytest.mark.parametrize("name,value", ENGINE, ids=lambda value: value or "empty")
def test_what_must_not_be_guessed_is_refused_by_name_and_value(make_broker, name, value):
    line = refusal(make_broker(**{name: value}))
    assert name in line and value in line, line


def test_a_tenant_header_without_a_trusted_proxy_is_refused(make_broker):
    line = refusal(make_broker(QUEEN_TENANCY_HEADER="1"))
    assert "QUEEN_TENANCY_HEADER" in line and "QUEEN_KV_TRUSTED_PROXY" in line


SINK = [
    ("QUEEN_S3_MAX_WINDOW_MS", "50", "100..=86400000"), ("QUEEN_S3_MAX_WINDOW_MS", "86400001", "100..=86400000"),
    ("QUEEN_S3_MAX_WINDOW_MS", "soon", "100..=86400000"), ("QUEEN_S3_TARGET_MB", "0", "1..=5120"), ("QUEEN_S3_THREADS", "65", "1..=64"),
    ("QUEEN_S3_SHUTDOWN_GRACE_MS", "99", "100..=3600000"), ("QUEEN_S3_LEASE_TTL_MS", "999", "1000..=3600000"),
    ("QUEEN_S3_PARTITIONS", "a", ""), ("QUEEN_S3_FORMAT", "avro", "jsonl"), ("QUEEN_S3_COMPRESSION", "lz4", "zstd"),
    ("QUEEN_S3_ALIGN", "week", "hour"), ("QUEEN_S3_START", "yesterday", "earliest"), ("QUEEN_S3_PATH_STYLE", "perhaps", "true"),
    ("QUEEN_S3_ENDPOINT", "127.0.0.1:9000", "http://"), ("QUEEN_S3_ENDPOINT", "http://host/path", "QUEEN_S3_PREFIX"),
    ("QUEEN_S3_ENDPOINT", "http://host:99999", "65535"), ("QUEEN_S3_BUCKET", "a/b", "QUEEN_S3_PREFIX"), ("QUEEN_S3_PREFIX", "a//b", ""),
    ("QUEEN_S3_PREFIX", "../a", ""), ("QUEEN_S3_QUEUES", "a,*", ""), ("QUEEN_S3_QUEUES", ",", ""), ("QUEEN_S3_SINK", "a b", ""),
    ("QUEEN_S3_SSE", "rot13", "AES256"), ("QUEEN_S3_CRASH_AT", "lunch", "after_intent"),
]


@pytest.mark.parametrize("name,value,more", SINK)
def test_a_bad_sink_setting_is_refused_by_name_value_and_range(make_broker, name, value, more):
    line = refusal(make_broker(**{**S3, name: value}))
    assert name in line and value in line and more in line, line


@pytest.mark.parametrize("name", ["ENDPOINT", "REGION", "BUCKET", "ACCESS_KEY", "SECRET_KEY"])
def test_a_sink_without_what_it_needs_is_refused(make_broker, name):
    settings = {key: value for key, value in S3.items() if key != f"QUEEN_S3_{name}"}
    assert f"QUEEN_S3_{name}" in refusal(make_broker(**settings))


def test_bad_sink_settings_do_not_matter_while_the_sink_is_off(make_broker):
    make_broker(QUEEN_S3_EMBEDDED="false", QUEEN_S3_MAX_WINDOW_MS="50").start()


def test_a_port_in_use_is_one_clear_line_and_the_directory_is_not_touched(make_broker):
    broker = make_broker()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broker.port))
        taken.listen()
        line = refusal(broker)
    assert str(broker.port) in line and "in use" in line, line


def test_an_address_that_is_not_here_is_refused(make_broker):
    assert "203.0.113.7" in refusal(make_broker(QUEEN_BIND_ADDR="203.0.113.7"))


def warnings(broker: Broker) -> list[str]:
    return [line for line in broker.log().splitlines() if " WARN " in line]


TYPOS = [("QUEEN_RAFT_SEGMENT_BYTE", "QUEEN_RAFT_SEGMENT_BYTES"), ("QUEEN_S3_QUEUE", "QUEEN_S3_QUEUES"),
         ("QUEEN_S3_SECRET_KEYS", "QUEEN_S3_SECRET_KEY"), ("QUEEN_MAX_BODY", "QUEEN_MAX_BODY_BYTES")]


@pytest.mark.parametrize("name,nearest", TYPOS)
def test_an_unknown_variable_is_one_warning_with_the_nearest_name_and_without_the_value(make_broker, name, nearest):
    broker = make_broker(**{name: SECRET}).start()
    lines = [line for line in warnings(broker) if f"{name} " in line]
    assert len(lines) == 1 and nearest in lines[0].replace(f"name={name} ", ""), broker.log()
    assert SECRET not in broker.log()


@pytest.mark.parametrize("name,value,used", [
    ("QUEEN_RAFT_PIPELINE", "0", "8"), ("QUEEN_RAFT_PIPELINE", "x", "8"), ("QUEEN_RAFT_DISK_HIGH_PCT", "0", "85"),
    ("QUEEN_RAFT_DISK_HIGH_PCT", "101", "85"), ("QUEEN_QLOG_SHARDS", "5000", "4096"), ("QUEEN_RAFT_SEGMENT_BYTES", "1", "33"),
    ("QUEEN_QLOG_ENTRY_LAYOUT", "both", "stub"),
])
def test_a_number_out_of_range_is_one_warning_that_says_what_is_used(make_broker, name, value, used):
    broker = make_broker(**{name: value}).start()
    lines = [line for line in warnings(broker) if name in line]
    assert len(lines) == 1 and value in lines[0] and used in lines[0], broker.log()


KEY = "5ec4e7" * 10 + "5ec4"  # 64 hex digits


def test_secrets_are_in_no_line_of_a_running_sink(make_broker):
    """A wrong key against a server that is not there, with every log line on."""
    secrets = {"JWT_SECRET": SECRET, "QUEEN_ENCRYPTION_KEY": KEY, "QUEEN_RAFT_TOKEN": SECRET, "QUEEN_PROXY_CP_TOKEN": SECRET}
    broker = make_broker(**S3, **secrets, QUEEN_S3_PATH_STYLE="true", LOG_LEVEL="trace").start()
    broker.push([{"queue": "orders", "payload": 1}])
    deadline = time.monotonic() + 30
    while "s3_attempt_failed" not in broker.log():
        assert time.monotonic() < deadline, "the bucket is not missed"
        time.sleep(0.05)
    assert SECRET not in broker.get("/status").text and KEY not in broker.get("/status").text
    broker.terminate()
    assert SECRET not in broker.log() and KEY not in broker.log()
