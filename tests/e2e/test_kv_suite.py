"""The acceptance list of the key/value store's client, with the published client."""

import time

import pytest

from published_client import with_client

FAST = {"QUEEN_KV_WRITE_RATE": "100000", "QUEEN_KV_WRITE_BURST": "100000", "QUEEN_KV_READ_RATE": "100000", "QUEEN_KV_READ_BURST": "100000"}


@pytest.fixture
def broker(make_broker):
    return make_broker(**FAST).start()


# ---- the acceptance list, with the published client ---------------------------------------------------------------


@with_client()
async def test_1_a_round_trip(client):
    stored = await client.kv.put("n", "k", {"a": 1}, ttl_seconds=60)
    got = await client.kv.get("n", "k")
    assert got["version"] == stored["version"] and got["expiresAt"] is not None and got["value"] == {"a": 1}
    assert (await client.kv.delete("n", "k"))["applied"] is True and (await client.kv.get("n", "k"))["found"] is False


@with_client()
async def test_2_a_stored_null(client):
    await client.kv.put("n", "k", None, forever=True)
    got = await client.kv.get("n", "k")
    assert got["found"] is True and got["value"] is None


@with_client()
async def test_3_two_put_if_absent(client):
    first = await client.kv.put_if_absent("n", "k", "one", forever=True)
    second = await client.kv.put_if_absent("n", "k", "two", forever=True)
    assert first["applied"] is True and (second["applied"], second["reason"], second["value"], second["version"]) == (False, "exists", "one", first["version"])


@with_client()
async def test_4_an_expect_creates_nothing(client):
    lost = await client.kv.put("n", "k", 1, forever=True, expect=90101)
    assert (lost["applied"], lost["reason"]) == (False, "absent") and (await client.kv.get("n", "k"))["found"] is False


@with_client()
async def test_5_a_chain_of_versions(client):
    first = await client.kv.put("n", "k", "v1", forever=True)
    assert (await client.kv.put("n", "k", "v2", forever=True, expect=first["version"]))["applied"] is True
    assert (await client.kv.put("n", "k", "v3", forever=True, expect=first["version"]))["reason"] == "version"
    assert (await client.kv.get("n", "k"))["value"] == "v2"


@with_client()
async def test_6_a_bounded_counter(client):
    assert [(await client.kv.incr("n", "k", max=2, ttl_seconds=60))["value"] for _ in range(2)] == [1, 2]
    over = await client.kv.incr("n", "k", max=2, ttl_seconds=60)
    assert (over["applied"], over["reason"], over["value"]) == (False, "limit", 2) and not over
    assert (await client.kv.incr("n", "none", delta=10, max=5, ttl_seconds=60))["reason"] == "limit"


@with_client()
async def test_7_an_expired_object_counts_as_zero(client):
    await client.kv.put("n", "k", {"a": 1}, ttl_seconds=1)
    time.sleep(1.5)
    row = await client.kv.incr("n", "k", delta=1, ttl_seconds=60)
    assert row["applied"] is True and row["value"] == 1


@with_client()
async def test_8_two_of_three(client):
    for key in ("a", "b"):
        await client.kv.put("n", key, key, forever=True)
    many = await client.kv.get_many("n", ["a", "none", "b"])
    assert [r["key"] for r in many["rows"]] == ["a", "b"] and many["missing"] == ["none"]


@with_client()
async def test_9_pages_of_a_prefix(client):
    for i in range(5):
        await client.kv.put("n", f"scan/{i}", i, forever=True)
    await client.kv.put("n", "scanX/0", 9, forever=True)
    page = await client.kv.get_prefix("n", "scan/", limit=2)
    assert len(page["rows"]) == 2 and page["truncated"] is True and page["nextAfter"] == "scan/1"
    assert [r["value"] for r in await client.kv.list_all("n", "scan/", limit=2)] == [0, 1, 2, 3, 4]


@with_client()
async def test_10_a_lifetime(client):
    await client.kv.put("n", "k", 1, ttl_seconds=1)
    assert (await client.kv.get("n", "k"))["found"] is True
    time.sleep(1.5)
    assert (await client.kv.get("n", "k"))["found"] is False and (await client.kv.put_if_absent("n", "k", 2, forever=True))["applied"] is True


@with_client()
async def test_11_once(client):
    assert (await client.kv.once("n", "k", ttl_seconds=60), await client.kv.once("n", "k", ttl_seconds=60)) == (True, False)


@with_client()
async def test_12_a_push_that_happens_once(client, broker):
    def step():
        return client.transaction().once("n", "step", ttl_seconds=60).queue("q").push([{"data": 1}]).commit()
    assert (await step())["success"] is True
    again = await step()
    assert (again["success"], again["reason"], again["kvReason"]) == (False, "kv_precondition", "exists") and isinstance(again["failedIndex"], int)
    assert len(broker.pop("q", batch=10)["messages"]) == 1


@with_client()
async def test_13_checks(client):
    stored = await client.kv.put("n", "k", "v", forever=True)
    held = await client.kv.check("n", "k", expect=stored["version"])
    assert held["applied"] is True and held["version"] == stored["version"] and "value" not in held
    lost = await client.kv.check("n", "k", expect=stored["version"] + 1)
    assert (lost["applied"], lost["reason"], lost["value"]) == (False, "version", "v")
    assert (await client.kv.check("n", "none", expect=0))["applied"] is True and (await client.kv.get("n", "k"))["version"] == stored["version"]
    verdict = await client._http_client.post("/api/v1/kv", [client.kv.op.check("n", "k", expect=stored["version"] + 1, required=True)])
    assert verdict["reason"] == "kv_precondition" and verdict["kvReason"] == "version"


@with_client()
async def test_checks_and_increments_of_a_transaction(client):
    """KV-12, 1.3, inside a transaction."""
    stored = await client.kv.put("n", "lock", 1, forever=True)
    done = await client.transaction().kv.check("n", "lock", expect=stored["version"], required=True).kv.incr("n", "c", delta=2, ttl_seconds=60).commit()
    assert done["success"] is True and "value" not in done["results"][0] and done["results"][1]["value"] == 2
    await client.kv.put("n", "lock", 2, forever=True)
    lost = await client.transaction().kv.check("n", "lock", expect=stored["version"], required=True).kv.incr("n", "c", delta=2, ttl_seconds=60).commit()
    assert (lost["success"], lost["reason"], lost["kvReason"], lost["failedIndex"], lost["value"]) == (False, "kv_precondition", "version", 0, 2)
    assert (await client.kv.get("n", "c"))["value"] == 2
