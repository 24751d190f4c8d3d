"""What went wrong with one try, told by its kind: from the SDK's exceptions to `Trouble`.

By status, by the error's type, and only where these two say too little by the words that servers
use. Texts that go on to people are one line, short, cleaned, and hold no key: what a server says is
a stranger's text, and some echo what they were shown.
"""

from __future__ import annotations

import json
import math
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from anthropic import APIConnectionError, APIStatusError
from pydantic import JsonValue

from orchestrator.models.stream import BrokenStreamError, ErrorEvent
from orchestrator.models.trouble import Trouble, TroubleKind
from orchestrator.models.watch import SilentError, TooLongError

TEXT_CHARS_MAX = 300
HIDDEN = "[hidden]"

_BUSY_STATUSES = frozenset([408, 409, 424, 425, 429, 499])
_BLOCKED_STATUSES = frozenset([401, 402, 403, 404])
_REFUSALS = frozenset([400, 422])
"""Statuses of a request that is wrong in itself."""

_BY_TYPE: Mapping[str, TroubleKind] = {
    "overloaded_error": "busy",
    "api_error": "busy",
    "rate_limit_error": "busy",
    "timeout_error": "busy",
    "conflict_error": "busy",
    "authentication_error": "blocked",
    "billing_error": "blocked",
    "permission_error": "blocked",
    "not_found_error": "blocked",
    "request_too_large": "too_long",
    "invalid_request_error": "invalid",
    # Amazon's names, in the frames of a stream.
    "throttlingException": "busy",
    "internalServerException": "busy",
    "serviceUnavailableException": "busy",
    "modelTimeoutException": "busy",
    "modelStreamErrorException": "broken",
    "validationException": "invalid",
}
"""What an error's type means where no status says it."""

_BILLING = re.compile(
    r"credit balance|insufficient (?:credit|quota|funds|balance)|insufficient_quota|billing"
    r"|usage limit|spend(?:ing)? limit|payment required",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"(?:prompt|input|request|conversation) (?:is )?too (?:long|large)|too many input tokens"
    r"|exceeds? (?:the )?(?:available )?(?:maximum )?context|context (?:limit|length|window)",
    re.IGNORECASE,
)
_REGAIN = re.compile(r"regain access on (\d{4}-\d\d-\d\d)(?: at (\d\d:\d\d) UTC)?")

_CLOUDS = ("botocore.", "google.auth.")
"""Modules whose exceptions, like the SDK's RuntimeErrors, tell of the cloud's credentials."""
_UNREACHABLE = frozenset(["TransportError", "ConnectionError", "HTTPClientError"])
"""Kinds among them that say that nobody could be asked for credentials."""

_CUT_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Faults of a connection that was cut while TLS was spoken; waiting may mend them."""

_ADVICE: Mapping[int, str] = {
    401: "check the key: ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
    402: "check the account's billing",
    403: "check what the key may do",
    404: "check the model's name and --base-url",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Who was asked, for what people read."""

    host: str
    secrets: tuple[str, ...] = ()
    """What may stand in no text."""

    def clean(self, text: str) -> str:
        """`text` as one short line without control characters and secrets."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        line = "".join(char if char.isprintable() else " " for char in text)
        line = " ".join(line.split())
        return line if len(line) <= TEXT_CHARS_MAX else line[: TEXT_CHARS_MAX - 1] + "…"


def trouble_of(error: Exception, place: Place, *, wall: float, answering: bool) -> Trouble:
    """The trouble that `error` means. Never raises.

    `wall`: Unix seconds now, for dates that servers send. `answering`: whether the server had begun
    to answer; what fails before that on this side is the request's fault.
    """
    match error:
        case Trouble():
            return error
        case APIStatusError():
            return _of_status(error, place, wall)
        case ErrorEvent():
            return _of_error(200, error.error, {}, place, wall)
        case APIConnectionError():
            return _of_connection(error, place)
        case SilentError():
            kind: TroubleKind = "broken" if answering else "busy"
            return Trouble(kind, place.clean(f"{place.host}: {error}"))
        case BrokenStreamError() | TooLongError():
            return Trouble("broken", place.clean(f"{place.host}: {error}"))
        case httpx2.TransportError():
            return Trouble("broken", place.clean(f"{place.host}: the connection broke: {error}"))
    said = place.clean(f"{type(error).__name__}: {error}")
    if answering:
        return Trouble("broken", f"{place.host}: the answer cannot be read: {said}")
    if isinstance(error, RuntimeError) or type(error).__module__.startswith(_CLOUDS):
        names = {kind.__name__ for kind in type(error).__mro__}
        kind = "blocked" if names.isdisjoint(_UNREACHABLE) else "busy"
        return Trouble(kind, f"{place.host}: the cloud's credentials cannot be used: {said}")
    return Trouble("invalid", f"the request cannot be sent: {said}")


def refusal_of(error: Exception) -> str | None:
    """Everything that the server says about a request it refuses; None for any other error."""
    if isinstance(error, APIStatusError) and error.status_code in _REFUSALS:
        return error.body if isinstance(error.body, str) else json.dumps(error.body, default=str)
    return None


def _of_status(error: APIStatusError, place: Place, wall: float) -> Trouble:
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else {"message": str(body or "")}
    if not isinstance(inner, dict):  # `{"error": "what is wrong"}`, as some servers say it
        inner = {"message": str(inner)}
    headers = {name.lower(): value for name, value in error.response.headers.items()}
    return _of_error(error.status_code, inner, headers, place, wall)


def _of_error(
    status: int,
    error: Mapping[str, JsonValue],
    headers: Mapping[str, str],
    place: Place,
    wall: float,
) -> Trouble:
    """`error`: the inner object, with `type` and `message` where the server knows the API."""
    named, words = error.get("type"), error.get("message") or error.get("detail")
    type_ = named if isinstance(named, str) else ""
    message = words if isinstance(words, str) else json.dumps(dict(error), default=str)
    kind = _kind(status, type_, message)
    wait = retry_after_s(headers, wall) if status == 429 or status >= 500 else None
    if kind == "blocked" and wait is None:
        wait = _regain_s(message, wall)
    what = " ".join(part for part in (str(status) if status != 200 else "", type_) if part)
    text = f"{place.host}: {what or 'error'}: {message}"
    if 300 <= status < 400:
        text = f"{place.host}: {status}: it sends elsewhere; set --base-url to where it points"
    line = place.clean(text)
    advice = _ADVICE.get(status) if kind == "blocked" else None
    if status == 401 and not place.secrets:
        advice = "no key is set: set ANTHROPIC_API_KEY, then resume"
    return Trouble(kind, f"{line} ({advice})" if advice else line, retry_after_s=wait)


def _kind(status: int, type_: str, message: str) -> TroubleKind:
    if status >= 500:
        return "busy"
    if type_ == "billing_error" or _BILLING.search(message):
        return "blocked"
    if status in _BUSY_STATUSES:
        return "busy"
    if status in _BLOCKED_STATUSES or 300 <= status < 400:
        return "blocked"
    if status == 413 or _TOO_LONG.search(message):
        return "too_long"
    if status in _REFUSALS or status == 200:
        return _BY_TYPE.get(type_, "broken" if status == 200 else "invalid")
    return "invalid"


def _of_connection(error: APIConnectionError, place: Place) -> Trouble:
    """No answer at all: busy, but for what waiting does not mend."""
    causes = list(_causes(error))
    why = place.clean(str(causes[-1]) or type(causes[-1]).__name__)
    text = f"{place.host}: cannot be reached: {why}"
    if any("CERTIFICATE_VERIFY_FAILED" in str(cause) for cause in causes):
        mend = "SSL_CERT_FILE names a file of those that are"
        return Trouble("blocked", f"{place.host}: its certificate is not trusted: {why} ({mend})")
    if any(isinstance(cause, ssl.SSLError) for cause in causes) and not any(
        isinstance(cause, _CUT_TLS) for cause in causes
    ):
        mend = "check --base-url: is it http://, or another port?"
        return Trouble("blocked", f"{place.host}: no TLS can be spoken there: {why} ({mend})")
    if any(isinstance(cause, UnicodeError) for cause in causes):
        return Trouble("invalid", f"the request cannot be sent: {why}")
    return Trouble("busy", text, unreachable=True)


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    """`error` and what it came from: its cause, else the exception that it was made of."""
    for _ in range(8):
        if error is None:
            return
        yield error
        made_of = next((item for item in error.args if isinstance(item, BaseException)), None)
        error = error.__cause__ or made_of


def retry_after_s(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that the server asks to be left alone; None where it does not say.

    Names in `headers` are lower case. In this order: `retry-after-ms`, `retry-after` as seconds or
    as a date, the reset of a limit that is used up.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    after = headers.get("retry-after")
    seconds = _number(after)
    if seconds is None and after is not None:
        date = _http_date(after)
        seconds = date - wall if date is not None else None
    if seconds is not None:
        return max(seconds, 0.0)
    resets = [reset - wall for reset in _resets(headers)]
    return max(*resets, 0.0) if resets else None


def _resets(headers: Mapping[str, str]) -> Iterable[float]:
    """Unix seconds when limits that have nothing left are filled again."""
    unified = _number(headers.get("anthropic-ratelimit-unified-reset"))
    if unified is not None:
        yield unified
    for name, value in headers.items():
        limit = re.fullmatch(r"(anthropic-ratelimit-[a-z-]+)-reset", name)
        if limit and headers.get(f"{limit[1]}-remaining", "").strip() == "0":
            moment = _iso_date(value)
            if moment is not None:
                yield moment


def _regain_s(message: str, wall: float) -> float | None:
    """Seconds until the day that a message about a usage limit names."""
    match = _REGAIN.search(message)
    if match is None:
        return None
    moment = _iso_date(f"{match[1]}T{match[2] or '00:00'}:00Z")
    return max(moment - wall, 0.0) if moment is not None else None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _http_date(text: str) -> float | None:
    try:
        return _unix(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def _iso_date(text: str) -> float | None:
    try:
        return _unix(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def _unix(moment: datetime) -> float:
    """A moment without a zone is UTC."""
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
