"""An S3 endpoint on this machine: moto's server, with a bucket."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest


@contextmanager
def s3_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Gives the URL of an empty bucket; this process and those that it starts reach it through the environment.

    Servers of one process share their buckets, so each has its own name.
    """
    bucket = f"studies-{uuid.uuid4().hex[:8]}"
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # or else it prints every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir(bucket)
    type(files).clear_instance_cache()
    try:
        yield f"s3://{bucket}"
    finally:
        type(files).clear_instance_cache()
        server.stop()
