"""What the demo looks at in the bucket. Commands: list, snapshot, lines K, check, query, ids."""

import hashlib
import json
import os
import sys
import tempfile

import boto3
import duckdb
import zstandard
from botocore.config import Config

BUCKET = "lake"
S3 = boto3.client("s3", endpoint_url=os.environ["DEMO_ENDPOINT"], region_name="us-east-1",
                  aws_access_key_id=os.environ["DEMO_ACCESS_KEY"], aws_secret_access_key=os.environ["DEMO_SECRET_KEY"],
                  config=Config(s3={"addressing_style": "path"}))
COLUMNS = {"partition": "VARCHAR", "offset": "BIGINT", "transactionId": "VARCHAR", "ts": "TIMESTAMPTZ", "payload": "JSON"}


def objects() -> dict[str, bytes]:
    keys = [item["Key"] for item in S3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return {key: S3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in sorted(keys)}


def lines(data: bytes) -> list[str]:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data).decode().splitlines()


def check(found: dict[str, bytes]) -> str:
    """Each manifest names objects that are there with its size, hash and records; no object is without a manifest."""
    named = set()
    for key, data in found.items():
        if "/windows/" not in key:
            continue
        for item in json.loads(data)["objects"]:
            body = found.get(item["key"])
            if body is None:
                return f"{item['key']} is missing"
            if (len(body), hashlib.sha256(body).hexdigest(), len(lines(body))) != (item["bytes"], item["sha256"], item["records"]):
                return f"{item['key']} is not what its manifest says"
            named.add(item["key"])
    orphans = [key for key in found if "/_queen/" not in key and key not in named]
    return "ok" if not orphans else f"no manifest names {orphans}"


def table(found: dict[str, bytes]) -> "duckdb.DuckDBPyRelation":
    """The data objects under a local root with the same paths, read as one Hive-partitioned table."""
    root = tempfile.mkdtemp(prefix="queen-lake-")
    for key, data in found.items():
        if "/_queen/" in key:
            continue
        path = os.path.join(root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    glob = os.path.join(root, "queen/tenant=*/queue=*/dt=*/hour=*/*.jsonl.zst")
    return duckdb.sql(f"""SELECT queue, dt, hour, partition, "offset", transactionId, payload->>'total' AS total
                          FROM read_json('{glob}', format='newline_delimited', hive_partitioning=true, columns={COLUMNS})
                          ORDER BY partition, "offset" """)


def main() -> None:
    found = objects()
    command = sys.argv[1]
    if command == "list":
        for key, data in found.items():
            print(f"{len(data):6} {key}")
    elif command == "snapshot":
        for key, data in found.items():
            print(hashlib.sha256(data).hexdigest(), key)
    elif command == "lines":
        for key, data in found.items():
            if f"/w-{int(sys.argv[2]):010}-" in key:
                print("\n".join(lines(data)))
    elif command == "check":
        verdict = check(found)
        print(verdict)
        sys.exit(0 if verdict == "ok" else 1)
    elif command == "query":
        print(table(found))
    elif command == "ids":
        print(" ".join(sorted(row[5] for row in table(found).fetchall())))
    else:
        sys.exit(f"no command {command}")


if __name__ == "__main__":
    main()
