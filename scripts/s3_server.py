"""An S3 server that checks signatures, for the demo and the tests: moto's, with IAM authentication switched on.

    s3_server.py BUCKET [PORT]

Makes a user with an access key and the bucket, prints one JSON line {"endpoint", "accessKey", "secretKey", "bucket"} and
serves on 127.0.0.1 until its standard input closes or it is killed. A request signed with another secret is answered 403.
"""

import json
import os
import socket
import subprocess
import sys
import time

import boto3
from botocore.config import Config

SETUP_CALLS = 4  # create_user, create_access_key, put_user_policy, create_bucket: free of authentication


def client(service: str, endpoint: str, access_key: str, secret_key: str):
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
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


def main() -> None:
    bucket = sys.argv[1]
    if len(sys.argv) > 2:
        port = int(sys.argv[2])
    else:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    server = os.path.join(os.path.dirname(sys.executable), "moto_server")
    process = subprocess.Popen(
        [server, "-H", "127.0.0.1", "-p", str(port)],
        env=dict(os.environ, INITIAL_NO_AUTH_ACTION_COUNT=str(SETUP_CALLS)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        endpoint = f"http://127.0.0.1:{port}"
        iam = client("iam", endpoint, "setup", "setup")
        iam.create_user(UserName="queen")
        key = iam.create_access_key(UserName="queen")["AccessKey"]
        allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        iam.put_user_policy(UserName="queen", PolicyName="bucket", PolicyDocument=json.dumps(allow))
        client("s3", endpoint, "setup", "setup").create_bucket(Bucket=bucket)
        print(json.dumps({"endpoint": endpoint, "accessKey": key["AccessKeyId"], "secretKey": key["SecretAccessKey"],
                          "bucket": bucket}), flush=True)
        sys.stdin.read()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
