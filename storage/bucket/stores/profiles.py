"""Profiles of AWS's tools (``AWS_PROFILE``, ``~/.aws/credentials``, ``~/.aws/config``), which the client does not read.

Keys in the files are read here. For anything else (single sign-on, roles, programs that return credentials), botocore
is used if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from configparser import ConfigParser, Error
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ...clock import SystemClock
from ...errors import InvalidConfigError
from ...filesystem.local import LocalFileSystem
from ...filesystem.locks import environment
from ...filesystem.operations import read_file

FILE_BYTES_MAX = 1 << 20
ASKED_AGAIN = timedelta(minutes=10)  # botocore keeps credentials, and renews them in time
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
ELSEWHERE = (  # settings that name another source of credentials, or none
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
REGIONS, ENDPOINTS = ("AWS_REGION", "AWS_DEFAULT_REGION"), ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
BY_BOTOCORE = ("sso_session", "sso_start_url", "role_arn", "credential_process", "login_session")


class Profile(NamedTuple):
    """The settings that a profile adds to the environment."""

    settings: dict[str, str]  # of the client
    ask: Callable[[], dict[str, Any]] | None = None  # returns credentials, which may expire, in obstore's form


def profile_in_use() -> Profile:
    """Returns keys, region and endpoint of the profile in use, except those that the environment has.

    Raises InvalidConfigError if ``AWS_PROFILE`` names a profile that is in neither file, or if one needs botocore.
    """
    name = (environment("AWS_PROFILE") or environment("AWS_DEFAULT_PROFILE") or "").strip()
    profile = _profile(name or "default")
    if not profile:
        if name:
            raise InvalidConfigError(
                f"AWS_PROFILE in the environment: neither {_path_of_credentials()} nor {_path_of_config()} has a "
                f"profile {name!r}"
            )
        return Profile({})
    found, ask = dict[str, str](), None
    if not any(environment(each) for each in ELSEWHERE):
        found = {key: profile[key] for key in KEYS if profile.get(key)}
        ask = _by_botocore(name or "default", profile)
    if "region" in profile and not any(environment(each) for each in REGIONS):
        found["aws_region"] = profile["region"]
    if "endpoint_url" in profile and not any(environment(each) for each in ENDPOINTS):
        found["aws_endpoint_url"] = profile["endpoint_url"]
    return Profile(found, ask)


def _by_botocore(name: str, profile: Mapping[str, str]) -> Callable[[], dict[str, Any]] | None:
    """Returns a function that asks botocore for credentials; None if the files have all that the profile needs."""
    why = next((key for key in BY_BOTOCORE if key in profile), None)
    if why is None or ("aws_access_key_id" in profile and why != "role_arn"):
        return None
    try:
        from botocore.session import Session  # type: ignore[import-not-found]  # noqa: PLC0415 - only some need it
    except ImportError:
        raise InvalidConfigError(
            f"profile {name!r} in {_path_of_config()}: has {why}, which needs botocore: pip install botocore, or set "
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN in the environment"
        ) from None

    session = Session(profile=name)

    def ask() -> dict[str, Any]:
        key, secret, token = session.get_credentials().get_frozen_credentials()[:3]
        until = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC) + ASKED_AGAIN
        return {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": until}

    return ask


def _profile(name: str) -> dict[str, str]:
    section = name if name == "default" else f"profile {name}"
    found = _section(_path_of_config(), section) | _section(_path_of_credentials(), name)
    return {key: value.strip() for key, value in found.items()}


def _section(path: str, name: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read_string(bytes(read_file(LocalFileSystem(), path, FILE_BYTES_MAX)).decode())
    except FileNotFoundError:
        return {}
    except (OSError, Error, UnicodeDecodeError) as error:
        raise InvalidConfigError(f"{path}: cannot be read as a file of profiles: {type(error).__name__}") from None
    return dict(parser[name]) if name in parser else {}


def _path_of_credentials() -> str:
    return _path(environment("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")


def _path_of_config() -> str:
    return _path(environment("AWS_CONFIG_FILE") or "~/.aws/config")


def _path(text: str) -> str:
    """Returns a path with the home folder in the place of ``~``."""
    return f"{environment('HOME') or ''}{text[1:]}" if text.startswith("~/") else text
