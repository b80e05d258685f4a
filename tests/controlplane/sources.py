"""What a pod runs to be the sources of snapshots on the pods' network: S3, the Hugging Face hub, a web server.

A program: ``python -m tests.controlplane.sources ADDRESS FOLDER``. It listens on free ports of the address until it is
killed. Each source lets in only whom it knows: ``FOLDER/ready.json`` (written last) says where they are and with what
credentials, ``FOLDER/asked`` has a line for each read of content: source, method, path, Range, status.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from tests.initializers.hubserver import Hub, HubRepo
from tests.initializers.s3server import S3Server
from tests.initializers.webserver import Question, Reply, WebServer, serve

__all__ = ["BIG", "FILES", "HUB_TOKEN", "WEB_TOKEN"]

BIG = random.Random(17).randbytes(300_000)
FILES = {"train.csv": b"1\n2\n3\n", "deep/big.bin": BIG}
BUCKET = "digits"
# An empty one, to keep snapshots in.
KEPT = "kept"
HUB_TOKEN, WEB_TOKEN = "hf_letmein0123456789", "web-letmein-0123456789"
# The first answer with the big file ends here.
CUT = 120_000
_POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'

Started = Callable[[str, list[tuple[str, str]]], Any]
Environ = dict[str, Any]


class Log:
    """Lines of a file, by several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        path.touch()

    def __call__(self, source: str, question: Question, reply: Reply) -> Reply:
        """Note a read of content and what it was answered; gives that."""
        words = (source, question.method, question.path, question.headers.get("range", "-"), str(reply.status))
        with self._lock, self._path.open("a") as file:
            file.write(" ".join(words) + "\n")
        return reply


class Guard:
    """A WSGI application before moto's, which answers 500 to who gives no name and knows no signed URLs.

    Args:
        moto: the application; it asks who it is of those whose headers are signed.
        secrets: secret of each access key.
        content: reads an object: told the question, and bucket and key as a path.
    """

    def __init__(self, moto: Any, secrets: Mapping[str, str], content: Callable[[Question], Reply]) -> None:
        self._moto, self._secrets, self._content = moto, secrets, content

    def __call__(self, environ: Environ, start: Started) -> Iterable[bytes]:
        """One request."""
        if "HTTP_AUTHORIZATION" in environ:
            answer: Iterable[bytes] = self._moto(environ, start)
            return answer
        question = _question(environ)
        reply = self._content(question) if _signed_by(question, self._secrets) else Reply(403, _denied())
        body = reply.body
        assert isinstance(body, bytes)
        start(f"{reply.status} -", [*reply.headers.items(), ("Content-Length", str(reply.size))])
        return [body[reply.start : reply.start + reply.size]]


def _denied() -> bytes:
    return b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


def _question(environ: Environ) -> Question:
    headers = {name[5:].lower().replace("_", "-"): text for name, text in environ.items() if name.startswith("HTTP_")}
    path = environ["PATH_INFO"].encode("latin-1").decode()
    query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    return Question(environ["REQUEST_METHOD"], path, query, headers)


def _signed_by(question: Question, secrets: Mapping[str, str]) -> bool:
    """Whether its URL is signed (version 4, of nothing but the host) by one of these keys."""
    given = {name: values[0] for name, values in question.query.items()}
    signature = given.pop("X-Amz-Signature", "")
    key, _, scope = given.get("X-Amz-Credential", "").partition("/")
    if key not in secrets:
        return False
    query = "&".join(f"{quote(name, safe='')}={quote(given[name], safe='')}" for name in sorted(given))
    canonical = [question.method, quote(question.path), query, f"host:{question.headers['host']}", "", "host"]
    digest = hashlib.sha256("\n".join([*canonical, "UNSIGNED-PAYLOAD"]).encode()).hexdigest()
    text, signed = "\n".join([given["X-Amz-Algorithm"], given["X-Amz-Date"], scope, digest]), f"AWS4{secrets[key]}"
    last = signed.encode()
    for word in (*scope.split("/"), text):
        last = hmac.new(last, word.encode(), "sha256").digest()
    return hmac.compare_digest(last.hex(), signature)


def serve_s3(address: str, log: Log) -> dict[str, str]:
    """S3 with two buckets and one user; what a pod's environment needs."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    inside = S3Server()
    objects = {f"/{BUCKET}/set/{path}": data for path, data in FILES.items()}
    inside.bucket(BUCKET, {path.removeprefix(f"/{BUCKET}/"): data for path, data in objects.items()})
    inside.bucket(KEPT, {})
    iam = inside.client("iam")
    iam.create_user(UserName="reader")
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=_POLICY)
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    inside.tell("reset-auth", "0")

    def content(question: Question) -> Reply:
        data = objects[question.path]
        return log("s3", question, serve(question, data, etag=f'"{hashlib.md5(data).hexdigest()}"'))

    guard = Guard(
        DomainDispatcherApplication(create_backend_app), {key["AccessKeyId"]: key["SecretAccessKey"]}, content
    )
    server = make_server(address, 0, guard, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {
        "AWS_ENDPOINT_URL": f"http://{address}:{server.server_port}",
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


def serve_hub(address: str, log: Log) -> dict[str, str]:
    """The hub with a private model, whose big file lies in the store behind it."""
    hub = Hub(remember=False, host=address)
    hub.tokens[HUB_TOKEN] = {"org/digits"}
    hub.repos["org/digits"] = HubRepo(private=True)
    commit = hub.repos["org/digits"].commit(FILES)

    def stored(question: Question) -> Reply:
        return log("hub", question, serve(question, hub.objects[question.path[1:]], etag='"stored"'))

    hub.before_store = stored
    return {"HF_ENDPOINT": hub.url, "HF_TOKEN": HUB_TOKEN, "commit": commit}


def serve_web(address: str, log: Log) -> dict[str, str]:
    """One file, which the first answer breaks off."""
    cut: list[int | None] = [CUT]

    def answer(question: Question) -> Reply:
        if question.headers.get("authorization") != f"Bearer {WEB_TOKEN}":
            return Reply(401)
        reply = serve(question, BIG, etag='"v1"')
        if question.method == "GET":
            reply.cut, cut[0] = cut[0], None
            log("web", question, reply)
        return reply

    return {"uri": f"{WebServer(answer, remember=False, host=address).url}/big.bin", "HTTP_TOKEN": WEB_TOKEN}


def main() -> None:
    """Serve until killed."""
    address, folder = sys.argv[1], Path(sys.argv[2])
    log = Log(folder / "asked")
    told = {"s3": serve_s3(address, log), "hub": serve_hub(address, log), "web": serve_web(address, log)}
    aside = folder / "ready"
    aside.write_text(json.dumps(told))
    os.replace(aside, folder / "ready.json")
    threading.Event().wait()


if __name__ == "__main__":
    main()
