"""Switches, grants, rates and quotas of the state plane (api-state.md 1.7, operations.md 8)."""

import pathlib
import shutil
import tempfile
import time

import pytest
import requests
from harness import Broker

TENANT = "01b7c0de-0001-7aaa-8bbb-00000000000a"
RATES = ("QUEEN_KV_READ_RATE", "QUEEN_KV_READ_BURST", "QUEEN_KV_WRITE_RATE", "QUEEN_KV_WRITE_BURST")


@pytest.fixture
def make():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="queen-quotas-"))
    made = []

    def start(**settings):
        made.append(Broker(directory / "data", **settings).start())
        return made[-1]

    yield start
    for broker in made:
        broker.close()
    shutil.rmtree(directory, ignore_errors=True)


def put(key, value=1):
    return {"op": "put", "ns": "n", "key": key, "value": value, "forever": True}


def kv(broker, *ops, tenant=None):
    headers = {"x-queen-tenant": tenant} if tenant else {}
    return requests.post(broker.url("/api/v1/kv"), json=list(ops), headers=headers, timeout=10)


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_switches_pause_kv_and_survive_a_restart(make):
    broker = make()
    assert broker.get("/api/v1/system/kv-timers").json() == {
        "kvEnabled": True, "timersScheduleEnabled": True, "timersFireEnabled": True, "quotaTenants": 0, "quotaAgeMs": 0,
        "quotaHot": False}
    assert broker.post("/api/v1/system/kv-timers", {"kv": False, "timersFire": False}).json()["kvEnabled"] is False
    paused = kv(broker, put("k"))
    assert (paused.status_code, paused.json()["error"], paused.headers["Retry-After"]) == (503, "kv_disabled", "1")
    assert broker.get("/api/v1/resources/queues").status_code == 200
    broker.kill9()
    broker.start()
    shown = broker.get("/api/v1/system/kv-timers").json()
    assert (shown["kvEnabled"], shown["timersScheduleEnabled"], shown["timersFireEnabled"]) == (False, True, False)
    assert kv(broker, put("k")).status_code == 503
    assert broker.post("/api/v1/system/kv-timers", {"kv": True}).json()["kvEnabled"] is True
    assert kv(broker, put("k")).json()["results"][0]["applied"] is True
    assert broker.post("/api/v1/system/kv-timers", {}).status_code == 400
    assert broker.post("/api/v1/system/ephemeral", {"enabled": False}).json() == {"ephemeralEnabled": False, "mirrored": True}
    assert broker.get("/api/v1/system/ephemeral").json() == {"ephemeralEnabled": False}


def test_the_default_rates_hold_for_everybody(make):
    broker = make(**{name: "" for name in RATES})
    began = time.monotonic()
    answers = [kv(broker, {"op": "delete", "ns": "n", "key": "k"}) for _ in range(400)]
    passed = sum(answer.status_code == 200 for answer in answers)
    assert 200 <= passed <= 200 + 100 * (time.monotonic() - began) + 2
    refused = [answer for answer in answers if answer.status_code != 200]
    for answer in refused:
        assert (answer.status_code, answer.json()["error"], answer.headers["Retry-After"]) == (429, "rate_limited", "1")
    if not refused:
        pytest.skip("this machine is slower than the rate")


def test_rows_and_bytes_stop_at_their_caps(make):
    broker = make()
    answer = broker.post("/api/v1/system/quota", {"kind": "kv", "maxRows": 5, "maxBytes": 100})
    assert answer.status_code == 200 and answer.json()["maxRows"] == 5 and answer.json()["success"] is True
    assert kv(broker, *[put(f"k{i}") for i in range(4)]).status_code == 200
    assert kv(broker, put("a"), put("b")).json()["error"] == "kv_quota_exceeded"
    assert kv(broker, {"op": "get", "ns": "n", "key": "k1"}).json()["results"][0]["found"] is True
    assert kv(broker, *[{"op": "delete", "ns": "n", "key": f"k{i}"} for i in range(4)]).status_code == 200
    wait_for(lambda: kv(broker, put("a", "x" * 90)).status_code == 200)
    assert kv(broker, put("b", "x" * 20)).status_code == 403
    broker.kill9()
    broker.start()
    assert kv(broker, put("b", "x" * 20)).status_code in (403, 503)
    wait_for(lambda: kv(broker, put("b", "x" * 20)).status_code == 403)
    assert broker.get("/api/v1/system/kv-timers").json()["quotaTenants"] == 1
    assert broker.post("/api/v1/resources/quota", {"kind": "kv"}).status_code == 200
    assert kv(broker, put("b", "x" * 20)).status_code == 200


def test_tenants_need_a_grant_when_the_header_counts(make):
    broker = make(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true")
    refused = kv(broker, put("k"), tenant=TENANT)
    assert (refused.status_code, refused.json()["error"]) == (403, "feature_gated")
    assert kv(broker, put("k")).status_code == 200
    granted = broker.post("/api/v1/system/quotas", {"kind": "kv", "tenantId": TENANT, "max_writes_per_second": 1})
    assert granted.json()["tenant"] == TENANT and granted.json()["enabled"] is True
    answers = [kv(broker, put("k"), tenant=TENANT).status_code for _ in range(4)]
    assert answers[:2] == [200, 200] and 429 in answers
    assert broker.post("/api/v1/system/quotas", {"kind": "kv", "tenant": TENANT, "enabled": False}).status_code == 200
    assert kv(broker, put("k"), tenant=TENANT).status_code == 403


def test_a_node_tracks_so_many_tenants_and_no_more(make):
    broker = make(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true", QUEEN_KV_REQUIRE_GRANT="false",
                  QUEEN_KV_MAX_TENANTS="1")
    assert kv(broker, put("k"), tenant=TENANT).status_code == 200
    full = kv(broker, put("k"))
    assert (full.status_code, full.json()["error"], full.headers["Retry-After"]) == (503, "kv_unavailable", "1")


def test_kv_inside_a_transaction_has_no_rate_and_obeys_switch_and_quota(make):
    broker = make(**{name: "1" for name in RATES})
    transact = lambda key: broker.post("/api/v1/transaction", {"kv": [put(key)], "operations": []})
    for i in range(10):
        assert transact(f"k{i}").json()["success"] is True
    assert broker.post("/api/v1/system/quota", {"kind": "kv", "maxRows": 11}).status_code == 200
    assert transact("last").json()["success"] is True
    full = transact("more").json()
    assert full["success"] is False and full["reason"] == "kv_quota_exceeded"
    assert broker.post("/api/v1/system/kv-timers", {"kv": False}).status_code == 200
    paused = transact("k1")
    assert paused.json()["success"] is False and paused.json()["reason"] == "kv_disabled"
    assert paused.status_code == 403 and "Retry-After" not in paused.headers
