"""`doctor`: what works here and what does not, each with its mend; changes and costs nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from orchestrator.journal import Journal, RunLog
from orchestrator.state_folder import StateFolder
from orchestrator.workspace.strays import VARIABLE
from tests.cli.program import ROOT, Result, orchestrate, orchestrate_each, record
from tests.observers.story import RUN, beginning
from tests.support.api.conversation import turns_policy
from tests.support.api.server import MODELS, ApiServer
from tests.support.repositories import commit_files, fingerprint, git, make_repository

LOOKED_AT = (
    *("python", "git", "sandbox", "state folder", "terminal", "tools", "repository"),
    *("roles", "runs", "model server", "prices"),
)
"""What there is a finding of in every repository."""

Found = dict[str, list[dict[str, str]]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "kitebase", {"a.txt": "one\n"})


def findings(result: Result) -> Found:
    """The findings of `doctor --json`, by what was looked at."""
    document = json.loads(result.out)
    assert document["works"] == (result.code == 0)
    found: Found = {}
    for check in document["checks"]:
        assert set(check) == {"name", "state", "text", "mend"}
        found.setdefault(check["name"], []).append(check)
    return found


def states(found: Found, state: str) -> set[str]:
    return {name for name, checks in found.items() if any(c["state"] == state for c in checks)}


def test_a_good_place_is_told_and_left_as_it_was(repository: Path, home: Path) -> None:
    before = fingerprint(repository)
    as_json, lines = orchestrate_each(
        ["doctor", "--json"], ["doctor", "--plain"], cwd=repository, home=home
    )
    assert (as_json.code, as_json.err, lines.code, lines.err) == (0, "", 0, "")
    found = findings(as_json)
    assert set(LOOKED_AT) == set(found)
    assert states(found, "problem") == set()
    head = git(repository, "rev-parse", "HEAD")
    assert found["repository"][0]["text"] == f"{repository}, main at {head[:12]}"
    assert git(repository, "version").split()[-1] in found["git"][0]["text"]
    assert "ANTHROPIC_API_KEY" in found["model server"][0]["text"]
    *told, blank, verdict = lines.out.splitlines()
    assert blank == ""
    assert verdict.startswith("runs can work: 0 to mend, ")
    assert [line.split()[0] for line in told] == [
        check["state"] for checks in found.values() for check in checks
    ]
    assert fingerprint(repository) == before
    assert not home.exists()


def test_keys_are_told_to_be_there_and_never_shown(repository: Path, home: Path) -> None:
    secret = "sk-ant-api03-very-secret"
    plain, other = orchestrate_each(
        ["doctor", "--json"],
        ["doctor", "--base-url", f"https://user:{secret}@example.org/x"],
        cwd=repository,
        home=home,
        ANTHROPIC_API_KEY=secret,
    )
    (server,) = findings(plain)["model server"]
    assert server["state"] == "ok"
    assert server["text"].startswith("api.anthropic.com, ANTHROPIC_API_KEY is set; not asked")
    assert other.code == 3
    assert secret not in plain.out + plain.err + other.out + other.err


def test_outside_of_a_repository_the_machine_is_looked_at(tmp_path: Path, home: Path) -> None:
    here, named = orchestrate_each(
        ["doctor", "--json"], ["doctor", "--json", "--repo", "."], cwd=tmp_path, home=home
    )
    assert here.code == 0
    assert "repository" in states(findings(here), "warning")
    assert named.code == 3
    assert states(findings(named), "problem") == {"repository"}
    assert "git init" in findings(named)["repository"][0]["mend"]


def test_problems_are_told_together(tmp_path: Path, home: Path) -> None:
    repository = make_repository(tmp_path / "empty")
    roles = repository / ".orchestrate" / "roles"
    roles.mkdir(parents=True)
    (roles / "reviewer.md").write_text("nothing\n\x1b[31m", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    file = tmp_path / "file"
    file.touch()
    (result,) = orchestrate_each(
        ["doctor", "--roles", str(roles)],
        cwd=repository,
        home=Path("/proc/nowhere"),
        PATH=str(tmp_path / "bin"),
    )
    assert (result.code, result.err) == (3, "")
    told = {line[9:].split("  ")[0]: line for line in result.out.splitlines() if "  " in line}
    problems = {name for name, line in told.items() if line.startswith("problem")}
    assert problems == {"git", "state folder", "tools", "repository", "roles"}
    assert "install git 2.38 or newer" in told["git"]
    assert "ORCHESTRATE_HOME" in told["state folder"]
    assert "orchestrate roles check" in told["roles"]
    assert told["sandbox"].startswith("warning")
    assert "bubblewrap" in told["sandbox"]
    assert result.out.isascii()
    assert "\x1b" not in result.out
    assert result.out.splitlines()[-1].startswith("runs cannot work yet: 5 to mend, ")


def test_what_cannot_be_looked_at_is_a_problem_like_others(repository: Path) -> None:
    result = orchestrate("doctor", "--json", cwd=repository, home=Path("/", "x" * 300))
    assert result.code == 3
    found = findings(result)
    assert states(found, "problem") == {"state folder", "runs", "processes"}
    assert "File name too long" in found["runs"][0]["text"]


def test_W27_a_repository_without_commits(tmp_path: Path, home: Path) -> None:
    repository = make_repository(tmp_path / "empty")
    result = orchestrate("doctor", "--json", cwd=repository, home=home)
    assert result.code == 3
    (found,) = findings(result)["repository"]
    assert (found["state"], found["mend"]) == ("problem", "make a first commit")


def test_W20_what_agents_will_see_otherwise(tmp_path: Path, home: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"a.txt": "one\n"})
    commit_files(origin, {"media/.gitattributes": "*.bin filter=lfs diff=lfs -text\n"})
    git(origin, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    git(origin, "commit", "-q", "-m", "a submodule")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "clone")
    result = orchestrate("doctor", "--json", cwd=tmp_path / "clone", home=home)
    assert result.code == 0
    found = findings(result)
    assert {"repository", "contents"} <= states(found, "warning")
    assert "--unshallow" in found["repository"][0]["mend"]
    lfs, submodules = found["contents"]
    assert "Git LFS" in lfs["text"]
    assert submodules["text"].endswith(": vendor/lib")


def test_what_dead_runs_left_is_named(repository: Path, home: Path) -> None:
    folder = record(home, repository / ".git", beginning())
    state = StateFolder.for_repository(repository / ".git", home)
    (state.trees / f"{RUN}.filter.1").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={VARIABLE: f"{RUN}.filter.1.{'0' * 32}"},
        stdin=subprocess.PIPE,
    )
    try:
        dead = orchestrate("doctor", "--json", cwd=repository, home=home)
        with RunLog.acquire(folder, Journal.open(state.database)):
            live = orchestrate("doctor", "--json", cwd=repository, home=home)
    finally:
        child.communicate(b"\n", timeout=50)
    run, tree = findings(dead)["runs"]
    assert run["mend"] == f"`orchestrate resume {RUN}` goes on"
    assert f"{RUN}.filter.1" in tree["text"]
    (processes,) = findings(dead)["processes"]
    assert str(child.pid) in processes["text"]
    assert (dead.code, live.code) == (0, 0)
    assert states(findings(live), "warning") == states(findings(dead), "warning") - {
        "runs",
        "processes",
    }


def test_the_reference_names_what_is_looked_at() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    table = reference.partition("### What doctor looks at\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    named = {name for row in rows for name in row.strip("`").split("` `")}
    assert named == {*LOOKED_AT, "contents", "processes"}


class _Page(BaseHTTPRequestHandler):
    """Answers everything with a page, or with a refusal where that is asked for."""

    def do_GET(self) -> None:
        self.send_response(401 if self.path.startswith("/refused/") else 200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Log in</h1>")

    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to know."""


@pytest.fixture
def page() -> Iterator[str]:
    """The URL of something that is no model server."""
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_online_asks_the_server(repository: Path, home: Path, page: str) -> None:
    with ApiServer(turns_policy()) as server:
        urls = (server.url, f"{page}/refused", page, "http://127.0.0.1:9")
        answered, refused, other, silent = orchestrate_each(
            *(["doctor", "--json", "--online", "--base-url", url] for url in urls),
            cwd=repository,
            home=home,
            ANTHROPIC_API_KEY=server.key,
        )
        assert server.log == []  # no model was asked anything
    (found,) = findings(answered)["model server"]
    assert (answered.code, found["state"]) == (0, "ok")
    assert f"it has {', '.join(MODELS[:3])}" in found["text"]
    for result, words in (
        (refused, "HTTP 401: it does not take the key"),
        (other, "what answers there is no model server"),
        (silent, "cannot be reached"),
    ):
        (found,) = findings(result)["model server"]
        assert (result.code, found["state"]) == (3, "problem")
        assert words in found["text"]
