"""A folder served as S3 serves a bucket: by the standard library and sendfile, no slower than its clients."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

from tests.initializers.webserver import Question, Reply, WebServer, serve

PAGE = 1000
_LIST = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'


class S3Files:
    """Bucket ``data``: every file of a folder; as much of the API as listing and reading take."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self._files = {path.relative_to(folder).as_posix(): path for path in paths}
        self._etags = {key: f'"{number:032x}-2"' for number, key in enumerate(self._files)}
        self._web = WebServer(self._answer, remember=False)
        self.url = self._web.url

    def _answer(self, question: Question) -> Reply:
        key = question.path.removeprefix("/data").lstrip("/")
        if not key:
            return self._list(question)
        path = self._files.get(key)
        if path is None:
            return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return serve(question, path, etag=self._etags[key], date="Sat, 28 Nov 2026 10:00:00 GMT")

    def _list(self, question: Question) -> Reply:
        prefix = question.query.get("prefix", [""])[0]
        after = question.query.get("continuation-token", [""])[0]
        keys = [key for key in self._files if key.startswith(prefix) and key > after]
        entries = "".join(
            f"<Contents><Key>{escape(quote(key))}</Key><LastModified>2026-11-28T10:00:00.000Z</LastModified>"
            f"<ETag>{escape(self._etags[key])}</ETag><Size>{self._files[key].stat().st_size}</Size></Contents>"
            for key in keys[:PAGE]
        )
        more = len(keys) > PAGE
        token = f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>" if more else ""
        body = (
            f"{_LIST}<Name>data</Name><Prefix>{escape(quote(prefix))}</Prefix><KeyCount>{len(keys[:PAGE])}</KeyCount>"
            f"<MaxKeys>{PAGE}</MaxKeys><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{entries}</ListBucketResult>"
        )
        return Reply(200, body.encode(), {"Content-Type": "application/xml"})
