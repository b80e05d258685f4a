"""s3://: listed by s3fs, read by signed URLs over connections of our own; each read says which content it wants.

s3fs reads one object's parts into memory all at once and an event loop is one thread; signed URLs are plain downloads
that several threads go on with. What cannot be read by a signed URL (keys of the customer's, a requester who pays, a
bucket whose policy wants signed headers) is read by s3fs, as exactly and a little slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trainer_ops.initializers.objects import Objects
from trainer_ops.initializers.objects_words import code_of, lacks_credentials
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Listing, RemoteFile
from trainer_ops.initializers.source import Source
from trainer_ops.initializers.target import Target
from trainer_ops.initializers.transfer import Transfer
from trainer_ops.initializers.wire import Answer, Wire, origin

__all__ = ["S3Objects", "server_of"]

# With these alone a signed URL reads what the driver reads.
_PLAIN: Final = frozenset(
    [
        "key",
        "secret",
        "token",
        "anon",
        "endpoint_url",
        "profile",
        "version_aware",
        "username",
        "password",
        "use_ssl",
        "cache_regions",
        "client_kwargs",
        "config_kwargs",
    ]
)
_PLAIN_CONFIG: Final = frozenset(
    ["signature_version", "s3", "region_name", "connect_timeout", "read_timeout", "retries", "max_pool_connections"]
)
_PLAIN_CLIENT: Final = frozenset({"region_name", "endpoint_url", "verify", "use_ssl"})
_GONE: Final = (404, 410)


def server_of(options: Mapping[str, object]) -> str:
    """Who is asked with these options of the driver, for errors."""
    known = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    endpoint = options.get("endpoint_url") or next(filter(None, known), "")
    try:
        return origin(str(endpoint))[1] if endpoint else "Amazon S3"
    except ValueError:
        return ""  # Its port is no number; the driver refuses it.


class _NotThisWay(Exception):
    """The signed URL is refused: the driver is asked, and says why where it is refused too."""


class S3Objects(Objects):
    """See the module."""

    def __init__(
        self, source: Source, credentials: Credentials, patience: Patience, pieces: Pieces | None = None
    ) -> None:
        super().__init__(source, credentials, patience, pieces or Pieces())
        client = self._mapping("client_kwargs")
        self._signed = (
            set(self._options) <= _PLAIN
            and set(client) <= _PLAIN_CLIENT
            and set(self._mapping("config_kwargs")) <= _PLAIN_CONFIG
        )
        verify = client.get("verify", os.environ.get("AWS_CA_BUNDLE") or True)
        wire = Wire(verify=verify if isinstance(verify, bool | str) else True)
        self._transfer = Transfer(wire, patience=patience, pieces=self._pieces)

    def resolve(self) -> Listing:
        """See ``Objects.resolve``; where this machine has no credentials at all, as everybody."""
        try:
            return super().resolve()
        except Exception as error:
            if self.anonymous or not lacks_credentials(error.__cause__ or error):
                raise
        self._options["anon"] = True
        self._fs = self._driver(self._options)
        return super().resolve()

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """See ``Provider.fetch``."""
        if self._signed:
            try:
                self._transfer.fetch(self._signed_target(file), part, wrote)
                return
            except _NotThisWay:
                pass
        super().fetch(file, part, wrote)

    def stop(self) -> None:
        """See ``Provider``."""
        self._transfer.stop()
        super().stop()

    def close(self) -> None:
        """See ``Provider.close``."""
        self._transfer.close()
        super().close()

    def _driver(self, options: Mapping[str, object]) -> Any:
        config = options.get("config_kwargs")
        # Without a region botocore would sign URLs as S3 did until 2014, which new buckets do not take.
        signing = {"signature_version": "s3v4", **(config if isinstance(config, Mapping) else {})}
        return super()._driver({**options, "config_kwargs": signing})

    def _mapping(self, name: str) -> Mapping[str, object]:
        value = self._options.get(name)
        return value if isinstance(value, Mapping) else {}

    def _file(self, name: str, path: str, info: Mapping[str, Any]) -> RemoteFile:
        etag, version = str(info["ETag"]), info.get("VersionId")
        known = f"{etag} {version}" if version and version != "null" else etag
        return RemoteFile(path, int(info["size"]), known, url=name)

    def _signed_target(self, file: RemoteFile) -> Target:
        etag, _, version = file.version.partition(" ")
        pinned = {"VersionId": version} if version else {}

        def url() -> str:
            with self._errors(self._target(file)):
                return str(self._fs.url(file.url, **pinned))

        def refused(answer: Answer) -> Exception:
            return target.changed() if answer.status in _GONE else _NotThisWay()

        target = Target(
            name=f"{self.source.uri}: {file.path}",
            url=url,
            size=file.size,
            etag=etag,
            raw=True,
            refused=refused,
            host=self._host(),
        )
        return target

    def _bytes(self, file: RemoteFile, start: int, stop: int) -> bytes:
        bucket, _, key = file.url.partition("/")
        etag, _, version = file.version.partition(" ")
        pinned = {"VersionId": version} if version else {}

        async def read() -> bytes:
            answer = await self._fs._call_s3(
                "get_object",
                dict(self._fs.req_kw),
                Bucket=bucket,
                Key=key,
                Range=f"bytes={start}-{stop - 1}",
                IfMatch=etag,
                **pinned,
            )
            async with answer["Body"] as body:
                data: bytes = await body.read()
                return data

        try:
            return bytes(self._on_loop(read()))
        except OSError as error:
            if code_of(error) in ("PreconditionFailed", "412"):
                raise self._target(file).changed() from error
            raise

    def _unchanged(self, file: RemoteFile) -> bool:
        """Each read has said which content it wants."""
        return True

    def _host(self) -> str:
        return server_of(self._options)

    _server = _host
