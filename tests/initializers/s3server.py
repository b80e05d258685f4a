"""A real S3 server (moto's) on loopback."""

from __future__ import annotations

import logging
import urllib.request
from typing import Any

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI-secret-bPxRfiCYEXAMPLEKEY"


class S3Server:
    """Runs in a thread until closed."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        # It prints a line for each request.
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.port = int(self._server.get_host_and_port()[1])
        # What it holds belongs to the process, not to the server: an earlier one may have left something.
        self.tell("reset")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, **more: object) -> dict[str, object]:
        """What a driver needs to be let in."""
        return {"key": KEY, "secret": SECRET, "endpoint_url": self.url, **more}

    def client(self, service: str = "s3") -> Any:
        """A client of AWS's own library."""
        import botocore.session

        return botocore.session.Session().create_client(
            service,
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def bucket(self, name: str, files: dict[str, bytes], *, versions: bool = False) -> Any:
        """Make a bucket with these objects; its client."""
        client = self.client()
        client.create_bucket(Bucket=name)
        if versions:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        for key, data in files.items():
            client.put_object(Bucket=name, Key=key, Body=data)
        return client

    def fill(self, name: str, files: dict[str, bytes]) -> None:
        """Many objects at once, past HTTP: the server runs in this process."""
        from moto.s3.models import s3_backends

        for backends in s3_backends.values():
            for backend in backends.values():
                if name in backend.buckets:
                    for key, data in files.items():
                        backend.put_object(name, key, data)

    def tell(self, what: str, value: str = "") -> None:
        """The server's own switches: ``reset``, ``reset-auth`` (requests before it asks who it is)."""
        request = urllib.request.Request(
            f"{self.url}/moto-api/{what}", value.encode(), {"Content-Type": "text/plain"}, method="POST"
        )
        urllib.request.urlopen(request, timeout=10).close()

    def close(self) -> None:
        self._server.stop()
