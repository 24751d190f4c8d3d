"""Files that look like secrets: by their name, and by their content where the name leaves a doubt.

A guard against accidents, not against an agent that wants to hide something.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_KEY_NAMES = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
_CREDENTIAL_NAMES = frozenset(
    {".netrc", "_netrc", ".pgpass", ".git-credentials", ".pypirc", ".htpasswd"}
)
_STORE_SUFFIXES = (".p12", ".pfx", ".jks", ".keystore", ".kdbx")
_KEY_SUFFIXES = (".pem", ".key")
_TEMPLATE_SUFFIXES = (".example", ".sample", ".template", ".dist", ".defaults")

_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_PRIVATE_KEY_LINE = re.compile(rb"^-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s*$", re.MULTILINE)
_TESTS = re.compile(r"(?:^|/)(?:tests?|testdata|fixtures|__tests__)/")
"""Folders in which a key is most likely made up."""
_ENV_VALUE = re.compile(rb"^\s*(?:export\s+)?[A-Za-z_]\w*\s*=[ \t]*[^\s#]", re.MULTILINE)
_NPM_TOKEN = re.compile(rb"_auth(?:Token)?\s*=\s*[^\s$]")


def why_secret(path: str, head: Callable[[], bytes]) -> str | None:
    """What a file seems to be if it looks like a secret, else None.

    `head` gives the first part of the content; it is asked where the name leaves a doubt.
    """
    name = path.rpartition("/")[2].lower()
    if name in _KEY_NAMES:
        return "a private key, by its name"
    if name in _CREDENTIAL_NAMES:
        return "holds credentials, by its name"
    if name.endswith(_STORE_SUFFIXES):
        return "a key store, by its name"
    if name.endswith(_KEY_SUFFIXES) and _PRIVATE_KEY.search(head()):
        return "holds a private key"
    if not _TESTS.search(path) and _PRIVATE_KEY_LINE.search(head()):
        return "holds a private key"
    if _is_env_file(name) and _ENV_VALUE.search(head()):
        return "an environment file with values"
    if name == ".npmrc" and _NPM_TOKEN.search(head()):
        return "holds a token"
    return None


def _is_env_file(name: str) -> bool:
    is_env = name == ".env" or name.startswith(".env.") or name == ".envrc"
    return is_env and not name.endswith(_TEMPLATE_SUFFIXES)
