"""`--base-url` and the environment: which server is meant, and what is wrong, in one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from orchestrator.errors import UsageError
from orchestrator.models.servers import Server, key_of, server_of

KEY = {"ANTHROPIC_API_KEY": "sk-secret"}
NEEDS_BEDROCK = pytest.mark.skipif(find_spec("boto3") is None, reason="boto3 is not installed")
NEEDS_VERTEX = pytest.mark.skipif(
    find_spec("google") is None or find_spec("google.auth") is None,
    reason="google-auth is not installed",
)


@pytest.mark.parametrize(
    ("base_url", "environ", "host"),
    [
        (None, KEY, "api.anthropic.com"),
        (None, {"ANTHROPIC_AUTH_TOKEN": "t"}, "api.anthropic.com"),
        (None, KEY | {"ANTHROPIC_BASE_URL": "https://proxy.example/v2/"}, "proxy.example"),
        (
            "http://127.0.0.1:8080",
            KEY | {"ANTHROPIC_BASE_URL": "https://x.example"},
            "127.0.0.1:8080",
        ),
        # A server that was named, or that runs here, may want no key.
        ("https://llm.example:8443/api", {}, "llm.example:8443"),
        ("http://10.0.0.7:11434", {}, "10.0.0.7:11434"),
        ("https://notanthropic.com", {}, "notanthropic.com"),
        # Without a key there is nothing to see in clear but the work itself.
        ("http://llm.example", {}, "llm.example"),
        (None, {"ANTHROPIC_BASE_URL": "http://localhost:11434"}, "localhost:11434"),
        (None, {"ANTHROPIC_BASE_URL": "http://[::1]:1234"}, "[::1]:1234"),
        # Blanks around a value are nobody's intention; a blank value is none.
        (None, {"ANTHROPIC_API_KEY": " sk \n", "ANTHROPIC_BASE_URL": " "}, "api.anthropic.com"),
    ],
)
def test_what_is_named_first_is_asked(
    base_url: str | None, environ: dict[str, str], host: str
) -> None:
    server = server_of(base_url, environ)
    assert server.kind == "anthropic"
    assert server.describe() == server.host == host


@pytest.mark.parametrize(
    ("base_url", "environ"),
    [
        (None, {}),
        (None, {"ANTHROPIC_API_KEY": " "}),
        (None, {"ANTHROPIC_BASE_URL": "https://proxy.example"}),
        ("https://api.anthropic.com", {}),
        ("https://eu.anthropic.com/", {}),
        ("https://api.anthropic.com:443", {}),
        ("https://API.Anthropic.com.", {}),
        ("http://api.anthropic.com:80/v1", {}),
    ],
)
def test_no_key_is_one_line_that_says_what_to_set(
    base_url: str | None, environ: dict[str, str]
) -> None:
    with pytest.raises(UsageError) as caught:
        server_of(base_url, environ)
    assert str(caught.value) == ("no key: set ANTHROPIC_API_KEY, or name a server with --base-url")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bedrock",
        "ftp://host",
        "api.anthropic.com",
        "https://",
        "http://host:port",
        "http://host:99999",
        "https://host/a b",
        "https://host/\n",
        "https://hóst",
        "http://[::1",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_of(url, KEY)
    assert "--base-url: not a URL" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@host",
        "https://hunter2@host/",
        "https://host/?key=hunter2",
        "https://host/#hunter2",
    ],
)
def test_a_url_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    for base_url, environ in ((url, KEY), (None, KEY | {"ANTHROPIC_BASE_URL": url})):
        with pytest.raises(UsageError) as caught:
            server_of(base_url, environ)
        assert "hunter2" not in str(caught.value)
        assert "ANTHROPIC_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://llm.example:8080/v1",
        "http://api.anthropic.com",
        "http://8.8.8.8",
        "http://134744072",  # the same address
        "http://[2606:4700::1111]:80",
        "http://localhost.example",
    ],
)
@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_a_key_is_not_sent_in_clear_over_the_internet(url: str, name: str) -> None:
    for base_url, environ, source in (
        (url, {name: "k"}, "--base-url"),
        (None, {name: "k", "ANTHROPIC_BASE_URL": url}, "ANTHROPIC_BASE_URL"),
    ):
        with pytest.raises(UsageError) as caught:
            server_of(base_url, environ)
        said = str(caught.value)
        assert said.startswith(f"{source}: http:// would send {name} to ")
        assert said.endswith(f" in clear; say https://, or unset {name}")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1",
        "http://127.1",
        "http://[::1]",
        "http://localhost",
        "http://a.localhost",
        "http://10.1.2.3",
        "http://172.16.0.9:80/llm",
        "http://192.168.1.1",
        "http://169.254.1.1",
        "http://100.64.0.1",
        "http://[fe80::1]",
        "http://[fd00::1]",
        "http://gateway:4000",
        "http://nas.local",
        "http://llm.default.svc.cluster.local",
        "http://host.docker.internal:11434",
        "https://llm.example",
    ],
)
def test_a_key_may_be_sent_in_clear_within_a_network_of_ones_own(url: str) -> None:
    assert server_of(url, KEY).url == url


@NEEDS_BEDROCK
def test_a_token_of_the_cloud_is_not_sent_in_clear_either() -> None:
    environ = {"ANTHROPIC_BEDROCK_BASE_URL": "http://gateway.example"}
    assert server_of("bedrock:us-east-1", environ).host == "gateway.example"
    with pytest.raises(UsageError, match=r"AWS_BEARER_TOKEN_BEDROCK to gateway\.example"):
        server_of("bedrock:us-east-1", environ | {"AWS_BEARER_TOKEN_BEDROCK": "t"})


@pytest.mark.parametrize("key", ["a\nb", "a b", "schlüssel", "\x1b[31m"])
def test_a_key_that_no_header_can_carry_is_found_before_anything_runs(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_of(None, {"ANTHROPIC_API_KEY": key})
    assert str(caught.value).startswith("ANTHROPIC_API_KEY: ")
    assert key not in str(caught.value)


def test_a_server_holds_no_secret() -> None:
    server = server_of("http://127.0.0.1:1/path", KEY | {"ANTHROPIC_AUTH_TOKEN": "t-secret"})
    shown = f"{server!r} {server.model_dump_json()} {server.describe()} {key_of(KEY)!r}"
    assert "secret" not in shown
    assert server.describe() == "127.0.0.1:1"
    assert Server.model_validate_json(server.model_dump_json()) == server


def test_the_key_goes_before_the_token() -> None:
    both = key_of({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"})
    assert both is not None
    assert (both.name, both.value) == ("ANTHROPIC_API_KEY", "k")
    assert key_of({}) is None


def test_a_model_on_this_machine_may_be_silent_for_longer() -> None:
    assert server_of("http://127.0.0.1:1", {}).idle_s > server_of(None, KEY).idle_s


@NEEDS_BEDROCK
@pytest.mark.parametrize(
    ("base_url", "environ", "described"),
    [
        ("bedrock:eu-central-1", {"AWS_REGION": "us-east-1"}, "bedrock:eu-central-1"),
        ("bedrock:", {"AWS_REGION": "us-east-1"}, "bedrock:us-east-1"),
        ("bedrock:", {"AWS_DEFAULT_REGION": "us-west-2"}, "bedrock:us-west-2"),
        ("bedrock:", {}, "bedrock:"),
        (
            "bedrock:us-east-1",
            {"ANTHROPIC_BEDROCK_BASE_URL": "https://gateway.example/b"},
            "bedrock:us-east-1 at gateway.example",
        ),
    ],
)
def test_bedrock_needs_no_key_of_anthropic(
    base_url: str, environ: dict[str, str], described: str
) -> None:
    server = server_of(base_url, environ)
    assert server.kind == "bedrock"
    assert server.describe() == described


@NEEDS_VERTEX
@pytest.mark.parametrize(
    ("base_url", "environ", "described"),
    [
        ("vertex:europe-west1/my-project", {}, "vertex:europe-west1/my-project"),
        ("vertex:global", {}, "vertex:global"),
        (
            "vertex:",
            {"CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "p"},
            "vertex:us-east5/p",
        ),
    ],
)
def test_vertex_needs_a_region(base_url: str, environ: dict[str, str], described: str) -> None:
    server = server_of(base_url, environ)
    assert server.kind == "vertex"
    assert server.describe() == described


@pytest.mark.parametrize(
    ("url", "environ", "said"),
    [
        pytest.param("bedrock:a/b", {}, "bedrock:REGION", marks=NEEDS_BEDROCK),
        pytest.param("bedrock:us east", {}, "bedrock:REGION", marks=NEEDS_BEDROCK),
        pytest.param("vertex:", {}, "CLOUD_ML_REGION", marks=NEEDS_VERTEX),
        pytest.param("vertex:a/b/c", {}, "vertex:REGION/PROJECT", marks=NEEDS_VERTEX),
        pytest.param(
            "vertex:a/b",
            {"ANTHROPIC_VERTEX_BASE_URL": "nowhere"},
            "ANTHROPIC_VERTEX_BASE_URL: not a URL",
            marks=NEEDS_VERTEX,
        ),
    ],
)
def test_a_faulty_place_in_a_cloud_is_one_line(
    url: str, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        server_of(url, environ)
    assert said in str(caught.value)


CHILD = """
import sys
for name in ("boto3", "google", "google.auth"):
    sys.modules[name] = None  # as if it were not installed
from orchestrator.errors import UsageError
from orchestrator.models.servers import server_of
for url in ("bedrock:us-east-1", "vertex:us-east5/p"):
    try:
        server_of(url, {})
    except UsageError as error:
        print(error)
server_of("http://127.0.0.1:1", {})
print("anthropic" in sys.modules, "httpx2" in sys.modules)
"""


def test_a_missing_extra_is_named_and_nothing_heavy_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "bedrock: needs boto3; pip install 'anthropic[bedrock]'",
        "vertex: needs google-auth[requests]; pip install 'anthropic[vertex]'",
        "False False",
    ]
