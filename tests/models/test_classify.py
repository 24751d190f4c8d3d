"""What each failure means: asked again, paused for, or given up. Rows of the field, one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx2
import pytest
from anthropic import APIConnectionError, APIStatusError, APITimeoutError
from pydantic import JsonValue

from orchestrator.models.classify import (
    TEXT_CHARS_MAX,
    Place,
    refusal_of,
    retry_after_s,
    trouble_of,
)
from orchestrator.models.stream import BrokenStreamError, ErrorEvent
from orchestrator.models.trouble import Trouble
from orchestrator.models.watch import SilentError

REQUEST = httpx2.Request("POST", "http://host/v1/messages")
PLACE = Place("host", ("sk-secret",))
WALL = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def answered(
    status: int, body: JsonValue = None, headers: Mapping[str, str] = {}
) -> APIStatusError:
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return APIStatusError("whatever", response=response, body=body)


def error(message: str, type_: str = "invalid_request_error") -> dict[str, JsonValue]:
    return {"type": "error", "error": {"type": type_, "message": message}}


def trouble(fault: Exception, *, answering: bool = False) -> Trouble:
    return trouble_of(fault, PLACE, wall=WALL, answering=answering)


@pytest.mark.parametrize(
    "status", [408, 409, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 599]
)
def test_L11_these_statuses_are_asked_again(status: int) -> None:
    assert trouble(answered(status)).kind == "busy"
    assert trouble(answered(status, error("no", "api_error"))).kind == "busy"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422, 431])
def test_L11_these_statuses_are_not_asked_again(status: int) -> None:
    assert trouble(answered(status, error("no"))).kind != "busy"


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_L16_key_permission_and_model_block(status: int) -> None:
    found = trouble(answered(status, error("no such thing", "authentication_error")))
    assert found.kind == "blocked"
    assert "no such thing" in str(found)


def test_L16_a_refused_key_says_what_to_look_at() -> None:
    assert "ANTHROPIC_API_KEY" in str(trouble(answered(401, error("invalid x-api-key"))))


def test_where_no_key_is_set_that_is_what_is_said() -> None:
    refused = answered(401, error("invalid x-api-key"))
    found = trouble_of(refused, Place("host"), wall=WALL, answering=False)
    assert "no key is set: set ANTHROPIC_API_KEY, then resume" in str(found)


@pytest.mark.parametrize(
    ("status", "type_", "message"),
    [
        (400, "invalid_request_error", "Your credit balance is too low to access the API."),
        (400, "invalid_request_error", "You have reached your specified API usage limits."),
        (429, "rate_limit_error", "You have reached your usage limit."),
        (429, "insufficient_quota", "You exceeded your quota, check your plan and billing details"),
        (402, "billing_error", "Payment required"),
        (400, "billing_error", "anything"),
        (403, "permission_error", "spending limit reached"),
    ],
)
def test_L03_credit_and_usage_limits_block(status: int, type_: str, message: str) -> None:
    assert trouble(answered(status, error(message, type_))).kind == "blocked"


def test_L03_the_day_on_which_a_limit_ends_is_known() -> None:
    message = "usage limits. You will regain access on 2027-01-16 at 08:00 UTC."
    assert trouble(answered(400, error(message))).retry_after_s == 24 * 3600


def test_a_rate_limit_is_no_usage_limit() -> None:
    message = "This request would exceed your organization's rate limit of 40,000 input tokens"
    assert trouble(answered(429, error(message, "rate_limit_error"))).kind == "busy"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "Request exceeds the maximum size"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
        (400, "the request exceeds the available context size. try increasing the context size"),
        (400, "This model's maximum context length is 8192 tokens"),
        (422, "Input is too long for requested model."),
    ],
)
def test_L10_a_prompt_that_does_not_fit_is_too_long(status: int, message: str) -> None:
    assert trouble(answered(status, error(message))).kind == "too_long"


@pytest.mark.parametrize("status", [400, 422, 405])
def test_other_refusals_are_invalid(status: int) -> None:
    assert trouble(answered(status, error("messages: text must be non-empty"))).kind == "invalid"


def test_a_server_that_sends_elsewhere_is_not_followed() -> None:
    found = trouble(answered(301, None, {"location": "https://evil.example/?key"}))
    assert found.kind == "blocked"
    assert "--base-url" in str(found)


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("overloaded_error", "busy"),
        ("api_error", "busy"),
        ("rate_limit_error", "busy"),
        ("timeout_error", "busy"),
        ("throttlingException", "busy"),
        ("internalServerException", "busy"),
        ("authentication_error", "blocked"),
        ("permission_error", "blocked"),
        ("billing_error", "blocked"),
        ("not_found_error", "blocked"),
        ("request_too_large", "too_long"),
        ("invalid_request_error", "invalid"),
        ("validationException", "invalid"),
        ("new_error", "broken"),
        ("", "broken"),
    ],
)
def test_errors_inside_a_stream_go_by_their_type(type_: str, kind: str) -> None:
    inner: dict[str, JsonValue] = {"type": type_, "message": "no"}
    assert trouble(ErrorEvent(inner), answering=True).kind == kind
    whole: dict[str, JsonValue] = {"type": "error", "error": inner}
    assert trouble(answered(200, whole), answering=True).kind == kind


@pytest.mark.parametrize(
    "body", [None, "", "<html>no</html>", {}, [], {"error": "x"}, {"error": None}, 3]
)
def test_bodies_that_are_not_the_apis_are_understood_by_status(body: JsonValue) -> None:
    assert trouble(answered(503, body)).kind == "busy"
    assert trouble(answered(400, body)).kind == "invalid"
    assert trouble(answered(200, body), answering=True).kind == "broken"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-requests-reset": "2027-01-15T09:00:00Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:30Z",
            },
            30,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-requests-reset": "2027-01-15T09:00:00Z",
            },
            None,
        ),
        ({"anthropic-ratelimit-unified-reset": "1800003600"}, 3600),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "tomorrow",
            },
            None,
        ),
    ],
)
def test_how_long_a_server_asks_to_be_left_alone(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, WALL) == seconds
    assert trouble(answered(429, None, headers)).retry_after_s == seconds
    assert trouble(answered(529, None, headers)).retry_after_s == seconds


def connection_error(cause: Exception | None) -> APIConnectionError:
    fault = APIConnectionError(request=REQUEST)
    fault.__cause__ = cause
    return fault


def test_a_server_that_cannot_be_reached_is_busy_and_says_why() -> None:
    found = trouble(connection_error(OSError("Connection refused")))
    assert (found.kind, str(found)) == ("busy", "host: cannot be reached: Connection refused")
    assert found.unreachable
    assert trouble(APITimeoutError(REQUEST)).kind == "busy"


def test_a_certificate_that_is_not_trusted_blocks() -> None:
    cause = OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert trouble(connection_error(cause)).kind == "blocked"


def test_what_fails_on_this_side_goes_by_when_it_fails() -> None:
    fault = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
    assert trouble(fault).kind == "invalid"
    assert trouble(ValueError("no")).kind == "invalid"
    assert trouble(ValueError("no"), answering=True).kind == "broken"
    assert trouble(httpx2.RemoteProtocolError("cut"), answering=True).kind == "broken"
    assert trouble(BrokenStreamError("cut"), answering=True).kind == "broken"
    assert trouble(SilentError("nothing"), answering=True).kind == "broken"
    assert trouble(SilentError("nothing")).kind == "busy"


def test_texts_are_one_short_clean_line_without_secrets() -> None:
    said = "bad key sk-secret\r\n\x1b[31mred\u202e " + "x" * 10_000
    for fault in (
        answered(401, error(said)),
        answered(500, said),
        ErrorEvent({"type": "t\nu", "message": said}),
        connection_error(OSError(said)),
        BrokenStreamError(said),
        ValueError(said),
    ):
        text = str(trouble(fault))
        assert text.isprintable()
        assert "sk-secret" not in text
        assert "[hidden]" in text
        assert len(text) < TEXT_CHARS_MAX + 100


def test_only_refusals_have_words_to_give_way_to() -> None:
    body = error("tools.0.strict: Extra inputs are not permitted")
    said = refusal_of(answered(400, body))
    assert said is not None
    assert json.loads(said) == body
    assert refusal_of(answered(422, "strict?")) == "strict?"
    assert refusal_of(answered(429, body)) is None
    assert refusal_of(answered(200, body)) is None
    assert refusal_of(ValueError("strict")) is None
