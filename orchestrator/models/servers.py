"""Which server answers: what `--base-url` and the environment say, checked before anything runs.

Not the client (`orchestrator.models.clients` makes that, and takes seconds to import) and no place
for secrets: a `Server` can be journaled and printed. Keys are read from the environment by `key_of`
when a client is made. URLs that carry a user, a password or a query are refused, since they would
end up in logs and session files; so are those that would carry a key in clear over the internet.

    --base-url           server
    (none)               $ANTHROPIC_BASE_URL, else the provider's own
    https://host/path    any server that speaks the Messages API
    bedrock:[REGION]     Amazon Bedrock
    vertex:[REGION[/PROJECT]]    Google Vertex AI
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from orchestrator.core.base import Record
from orchestrator.errors import UsageError

KeyName = Literal["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]
ServerKind = Literal["anthropic", "bedrock", "vertex"]

DEFAULT_URL = "https://api.anthropic.com"
IDLE_S = 90.0
"""Seconds without a byte after which a hosted server counts as silent."""
LOCAL_IDLE_S = 600.0
"""The same for one on this machine, which may read a long prompt for minutes and say nothing."""

_EXTRAS: Mapping[ServerKind, tuple[str, str]] = {
    "bedrock": ("boto3", "boto3"),
    "vertex": ("google.auth", "google-auth[requests]"),
}
"""What a kind of server needs: the module, and what it is installed as."""
_KEYS: tuple[KeyName, ...] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Where keys are looked for: the first one counts."""
_NEAR = (".localhost", ".local", ".internal", ".home.arpa")
"""Ends of names that mean nothing outside of a network of one's own."""
_NAME = re.compile(r"[a-z0-9][a-z0-9:.-]{0,99}", re.IGNORECASE)


class Server(Record):
    """A place that answers. Holds no secret."""

    kind: ServerKind
    url: str | None = None
    """Base URL; None is what the provider's SDK knows for `region`."""
    region: str | None = None
    """Of Bedrock (None: what the AWS configuration says) and Vertex."""
    project: str | None = None
    """Of Vertex; None: the one that the credentials belong to."""

    @property
    def host(self) -> str:
        """Host and port of `url`; empty where there is none."""
        return urlsplit(self.url).netloc if self.url is not None else ""

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self.url is not None and _is_loopback(_host(self.url))

    @property
    def idle_s(self) -> float:
        """Seconds without a byte after which it counts as silent."""
        return LOCAL_IDLE_S if self.is_local else IDLE_S

    def describe(self) -> str:
        """What may be printed and journaled: kind, place and host, no path."""
        if self.kind == "anthropic":
            return self.host
        place = "/".join(part for part in (self.region, self.project) if part)
        at = f" at {self.host}" if self.url is not None else ""
        return f"{self.kind}:{place}{at}"


@dataclass(frozen=True, slots=True)
class Key:
    """What a server is shown. Its value is not in its repr."""

    name: KeyName
    value: str = field(repr=False)


def server_of(base_url: str | None, environ: Mapping[str, str]) -> Server:
    """The server that is meant, complete with all that it needs to be asked.

    `base_url`: the command line's, None where it says nothing. Raises `UsageError` with one line
    that says what to set. Imports no SDK and asks nobody.
    """
    if base_url is not None and base_url.startswith("bedrock:"):
        return _bedrock(base_url.removeprefix("bedrock:"), environ)
    if base_url is not None and base_url.startswith("vertex:"):
        return _vertex(base_url.removeprefix("vertex:"), environ)
    name = "--base-url" if base_url is not None else "ANTHROPIC_BASE_URL"
    url = base_url
    if url is None:
        url = _value(environ, "ANTHROPIC_BASE_URL") or DEFAULT_URL
    server = Server(kind="anthropic", url=_checked(url, name))
    key = key_of(environ)
    named = base_url is not None and not f".{_host(url)}".endswith(".anthropic.com")
    if key is None and not (named or server.is_local):
        raise UsageError("no key: set ANTHROPIC_API_KEY, or name a server with --base-url")
    if key is not None:
        _refuse_in_clear(url, name, key.name)
    return server


def key_of(environ: Mapping[str, str]) -> Key | None:
    """The key, else the token, that the environment holds. Raises `UsageError` for a broken one."""
    for name in _KEYS:
        value = _value(environ, name)
        if value is None:
            continue
        if not value.isascii() or not value.isprintable() or " " in value:
            raise UsageError(f"{name}: it holds characters that no key has; set it again")
        return Key(name=name, value=value)
    return None


def _bedrock(place: str, environ: Mapping[str, str]) -> Server:
    _check_extra("bedrock")
    region = place or _value(environ, "AWS_REGION") or _value(environ, "AWS_DEFAULT_REGION")
    if region is not None and not _NAME.fullmatch(region):
        raise UsageError("--base-url: say bedrock:REGION, for example bedrock:eu-central-1")
    name, token = "ANTHROPIC_BEDROCK_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK"
    url = _value(environ, name)
    checked = _checked(url, name) if url is not None else None
    if url is not None and _value(environ, token) is not None:
        _refuse_in_clear(url, name, token)
    return Server(kind="bedrock", url=checked, region=region)


def _vertex(place: str, environ: Mapping[str, str]) -> Server:
    _check_extra("vertex")
    region, _, project = place.partition("/")
    region = region or _value(environ, "CLOUD_ML_REGION") or ""
    project = project or _value(environ, "ANTHROPIC_VERTEX_PROJECT_ID") or ""
    if not region:
        raise UsageError("vertex: no region; set CLOUD_ML_REGION, or say vertex:REGION/PROJECT")
    if not _NAME.fullmatch(region) or not (_NAME.fullmatch(project) or not project):
        raise UsageError(
            "--base-url: say vertex:REGION/PROJECT, for example vertex:europe-west1/my-project"
        )
    url = _value(environ, "ANTHROPIC_VERTEX_BASE_URL")
    checked = _checked(url, "ANTHROPIC_VERTEX_BASE_URL") if url is not None else None
    return Server(kind="vertex", url=checked, region=region, project=project or None)


def _check_extra(kind: ServerKind) -> None:
    module, library = _EXTRAS[kind]
    top, _, _ = module.partition(".")
    if find_spec(top) is None or find_spec(module) is None:
        raise UsageError(f"{kind}: needs {library}; pip install 'anthropic[{kind}]'")


def _checked(url: str, name: str) -> str:
    """The URL without a slash at its end. Raises `UsageError`, which never repeats a secret."""
    parts = _split(url)
    if parts is None:
        raise UsageError(
            f"{name}: not a URL of a server; say https://HOST, bedrock:REGION or"
            " vertex:REGION/PROJECT"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"{name}: leave out user, password, query and fragment of the URL; a key goes into"
            " ANTHROPIC_API_KEY, a token into ANTHROPIC_AUTH_TOKEN"
        )
    return url.rstrip("/")


def _refuse_in_clear(url: str, name: str, shown: str) -> None:
    """Raise `UsageError` where `shown`, a key's name, would go over the internet in clear."""
    parts = urlsplit(url)
    host = _host(url)
    if parts.scheme == "http" and not _is_near(host):
        raise UsageError(
            f"{name}: http:// would send {shown} to {host} in clear; say https://, or unset {shown}"
        )


def _split(url: str) -> SplitResult | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises where it is no number of a port
    except ValueError:
        return None
    return parts if usable else None


def _host(url: str) -> str:
    """The name of a checked URL's host, without its port."""
    return (urlsplit(url).hostname or "").rstrip(".")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback


def _is_near(host: str) -> bool:
    """Whether a host is this machine or in a network of one's own, as far as its name says."""
    address = _address(host)
    if address is None:
        return "." not in host or host.endswith(_NEAR)
    return not address.is_global


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `host` is, as short as it may be written; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _value(environ: Mapping[str, str], name: str) -> str | None:
    """A variable without the blanks around it; None where that leaves nothing."""
    return environ.get(name, "").strip() or None
