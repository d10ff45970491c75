"""Settings for the client of an object store, in addition to the environment, which it reads itself.

White space around variables is removed: secrets read from a file often end with a newline, and the client would crash.
Other invalid values are refused with the name of the variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from ...errors import InvalidConfigError
from ...filesystem.locks import environment
from .profiles import Profile, profile_in_use


class Provider(NamedTuple):
    """The names that a provider gives to things."""

    name: str
    prefix: str  # of its variables
    credentials: tuple[str, ...]  # variables that become a part of a request's header
    endpoints: tuple[str, ...]
    others: tuple[str, ...]  # variables that need no check
    allow_http: str
    rights: dict[str, str]  # by those of S3


# The rights that requests need, by S3's names. Without the second one, S3 answers a read of a missing object with a
# refusal.
READ, LIST, WRITE, DELETE = "s3:GetObject and s3:ListBucket", "s3:ListBucket", "s3:PutObject", "s3:DeleteObject"

S3 = Provider(
    "S3",
    "AWS_",
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    (
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ALLOW_HTTP",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
        "AWS_SKIP_SIGNATURE",
        "AWS_TIMEOUT",
        "AWS_CONNECT_TIMEOUT",
    ),
    "AWS_ALLOW_HTTP",
    {right: right for right in (READ, LIST, WRITE, DELETE)},
)
GOOGLE = Provider(
    "Google Cloud Storage",
    "GOOGLE_",
    (),
    (),
    (
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SKIP_SIGNATURE",
        "GOOGLE_TIMEOUT",
        "GOOGLE_CONNECT_TIMEOUT",
    ),
    "GOOGLE_ALLOW_HTTP",
    {
        READ: "storage.objects.get and storage.objects.list",
        LIST: "storage.objects.list",
        WRITE: "storage.objects.create and storage.objects.delete (to replace one)",
        DELETE: "storage.objects.delete",
    },
)
AZURE = Provider(
    "Azure Blob Storage",
    "AZURE_",
    ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_TOKEN"),
    ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    (
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_TENANT_ID",
        "AZURE_TIMEOUT",
        "AZURE_CONNECT_TIMEOUT",
    ),
    "AZURE_ALLOW_HTTP",
    {
        READ: "the role Storage Blob Data Reader",
        LIST: "the role Storage Blob Data Reader",
        WRITE: "the role Storage Blob Data Contributor",
        DELETE: "the role Storage Blob Data Contributor",
    },
)


def provider_of(url: str) -> Provider:
    """Returns the provider of a URL."""
    return {"s3": S3, "gs": GOOGLE}.get(url.partition(":")[0], AZURE)


def settings_of(url: str) -> Profile:
    """Returns the settings for the client by the variables' names in lower case, and the source of credentials.

    Raises InvalidConfigError, with a variable's name, for a wrong one.
    """
    provider = provider_of(url)
    found = dict(_cleaned(provider))
    for name in provider.endpoints:
        if (endpoint := environment(name)) and endpoint.strip():
            check_endpoint(f"{name} in the environment", endpoint.strip())
    profile = profile_in_use() if provider is S3 else Profile({})
    if endpoint := profile.settings.get("aws_endpoint_url"):
        check_endpoint("endpoint_url of the profile in use", endpoint)
    return profile._replace(settings=found | profile.settings)


def _cleaned(provider: Provider) -> Iterator[tuple[str, str]]:
    """Yields the variables with white space around their values, without it."""
    for name in (*provider.credentials, *provider.endpoints, *provider.others):
        value = environment(name) or ""
        stripped = value.strip()
        if name in provider.credentials and not (stripped.isascii() and stripped.isprintable()):
            raise InvalidConfigError(
                f"{name} in the environment: has a line end or another character that no credential has; set it again"
            )
        if stripped != value:
            yield name.lower(), stripped


def check_endpoint(what: str, endpoint: str) -> None:
    """Raises InvalidConfigError for an endpoint that is no URL of a server. ``what``: where it is set."""
    if not endpoint.lower().startswith(("http://", "https://")):
        raise InvalidConfigError(f"{what}: must begin with https:// or http://")
    if not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InvalidConfigError(f"{what}: has a space or another character that no URL has")
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidConfigError(f"{what}: is not the URL of a server: {error}") from None
    if not host or port == 0:
        raise InvalidConfigError(f"{what}: has no {'port that a server may have' if host else 'host'}")
