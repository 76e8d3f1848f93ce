"""An S3 server on loopback, moto's, in a process of its own; and providers whose stores lie in it."""

from __future__ import annotations

import hashlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from rawthink_lancedb.provider import LanceProvider
from rawthink_lancedb.settings import LanceSettings

KEY, SECRET = "an-access-key", "a-secret-of-the-tests"
_SECONDS = 60


class Server:
    """One server, which can be stopped and started again on its port; what it holds is lost then."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._process = None
        self._buckets = set()

    def start(self):
        command = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{self.port}'])"
        self._process = subprocess.Popen(
            [sys.executable, "-c", command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._buckets.clear()
        end = time.monotonic() + _SECONDS
        while True:
            try:
                self._ask("GET", "/moto-api/data.json")
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError):
                    break
                assert time.monotonic() < end, "the S3 server did not start"
                assert self._process.poll() is None, "the S3 server ended"
                time.sleep(0.1)
            else:
                break

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self):
        """Answer nobody, keeping what is held."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def bucket(self, name, *, versioned=False):
        """Return the name of a bucket, made where there is none."""
        if name not in self._buckets:
            self._ask("PUT", f"/{name}")
            self._buckets.add(name)
        if versioned:
            body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            self._ask("PUT", f"/{name}?versioning", body)
        return name

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(self.address + path, data=body, method=method)
        request.add_header("Content-Type", "application/xml")
        # it checks no signature, but wants to see one
        request.add_header(
            "Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request"
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def settings(self, bucket, folder, **settings):
        """Return the settings of a store in a bucket; its secrets lie in a file in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        secrets = folder / "secrets.toml"
        secrets.write_text(f'aws_access_key_id = "{KEY}"\naws_secret_access_key = "{SECRET}"\n')
        secrets.chmod(0o600)
        return LanceSettings(
            uri=f"s3://{bucket}/store",
            options={"endpoint": self.address, "allow_http": "true", "region": "us-east-1"},
            options_file=str(secrets),
            **settings,
        )

    def provider(self, world, **settings):
        """Return a provider whose store lies in a bucket of its world's own."""
        place = hashlib.sha256(str(world.path).encode()).hexdigest()[:20]
        bucket = self.bucket(f"world-{place}")
        return LanceProvider(self.settings(bucket, world.path.parent / "settings", **settings), world)


@contextmanager
def serving():
    """Serve S3 on loopback."""
    server = Server()
    server.start()
    try:
        yield server
    finally:
        server.stop()
