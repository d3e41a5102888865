"""An S3 server that checks signatures, for the demo and the tests.

    s3_server.py BUCKET [PORT] [--kind moto|versitygw]

`moto` is moto's server with IAM authentication switched on; `versitygw` is the Versity S3 Gateway over a directory, which
scripts/setup builds. Makes an access key and the bucket, prints one JSON line {"endpoint", "accessKey", "secretKey", "bucket"}
and serves on 127.0.0.1 until its standard input closes or it is killed. A request signed with another secret is answered 403.
"""

import argparse
import contextlib
import json
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import tempfile
import time

import boto3
from botocore.config import Config

SETUP_CALLS = 4  # create_user, create_access_key, put_user_policy, create_bucket: free of authentication
VERSITYGW = pathlib.Path(__file__).resolve().parent.parent / ".cache/tools/versitygw"
REGION = "us-east-1"


def client(service: str, endpoint: str, access_key: str, secret_key: str):
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )


def wait_for(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit("the S3 server ended at start")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("the S3 server does not listen")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command: list[str], port: int, environment: dict[str, str]):
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def moto(bucket: str, port: int):
    server = os.path.join(os.path.dirname(sys.executable), "moto_server")
    with running([server, "-H", "127.0.0.1", "-p", str(port)], port, {"INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_CALLS)}) as endpoint:
        iam = client("iam", endpoint, "setup", "setup")
        iam.create_user(UserName="queen")
        key = iam.create_access_key(UserName="queen")["AccessKey"]
        allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="queen", PolicyName="bucket", PolicyDocument=json.dumps(allow))
        client("s3", endpoint, "setup", "setup").create_bucket(Bucket=bucket)
        yield {"endpoint": endpoint, "accessKey": key["AccessKeyId"], "secretKey": key["SecretAccessKey"]}


@contextlib.contextmanager
def versitygw(bucket: str, port: int):
    key = {"accessKey": "queen" + secrets.token_hex(6), "secretKey": secrets.token_urlsafe(30)}
    with tempfile.TemporaryDirectory(prefix="queen-s3-") as directory:
        root, sidecar = pathlib.Path(directory, "root"), pathlib.Path(directory, "meta")
        root.mkdir()
        sidecar.mkdir()
        # Metadata beside the files: not every file system of a test machine has extended attributes.
        command = [str(VERSITYGW), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "--keep-alive",
                   "posix", "--sidecar", str(sidecar), str(root)]
        environment = {"ROOT_ACCESS_KEY": key["accessKey"], "ROOT_SECRET_KEY": key["secretKey"]}
        with running(command, port, environment) as endpoint:
            client("s3", endpoint, key["accessKey"], key["secretKey"]).create_bucket(Bucket=bucket)
            yield {"endpoint": endpoint, **key}


KINDS = {"moto": moto, "versitygw": versitygw}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bucket")
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--kind", choices=KINDS, default="moto")
    asked = parser.parse_args()
    with KINDS[asked.kind](asked.bucket, asked.port or free_port()) as about:
        print(json.dumps({**about, "bucket": asked.bucket}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
