"""Storage connection strings: taken apart, completed and checked before the SDK sees them.

What is wrong is said without printing the string: only the names of its well-known keys are shown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from singleton.base.errors import ConfigurationError

_DEVELOPMENT_ACCOUNT: Final = "devstoreaccount1"
_DEVELOPMENT_KEY: Final = (  # the emulator's, the same everywhere and published
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

_KNOWN_KEYS: Final = {
    key.lower(): key
    for key in (
        *("AccountName", "AccountKey", "SharedAccessSignature", "DefaultEndpointsProtocol", "EndpointSuffix"),
        *("BlobEndpoint", "QueueEndpoint", "TableEndpoint", "FileEndpoint"),
        *("BlobSecondaryEndpoint", "QueueSecondaryEndpoint", "TableSecondaryEndpoint", "FileSecondaryEndpoint"),
        *("UseDevelopmentStorage", "DevelopmentStorageProxyUri"),
    )
}


class StorageString(NamedTuple):
    """A connection string that is complete: ``text`` as the SDK takes it, the blob service's URL in it, the way in.

    Of ``key``, with the account's name, and ``signature`` one is there; the key counts where both are.
    """

    text: str
    endpoint: str
    account: str
    key: str
    signature: str


def parse_connection_string(text: str, label: str) -> StorageString:
    """Check a connection string.

    Raises:
        ConfigurationError: it is malformed, or lacks the account or the key. The message calls the string ``label``.
    """
    parts = _parts(text, label)
    url = parts.get("blobendpoint")
    if not url and not parts.get("accountname"):
        raise ConfigurationError(f"{label} names no account: {_shown(parts)}. Add AccountName or BlobEndpoint")
    if url:
        checked_url(url, f"BlobEndpoint in {label}")
    _check_way_in(parts, label)
    if not url:  # said in full, as the SDK takes the protocol only together with the suffix
        parts = {"defaultendpointsprotocol": "https", "endpointsuffix": "core.windows.net"} | parts
        url = "{defaultendpointsprotocol}://{accountname}.blob.{endpointsuffix}".format_map(parts)
        checked_url(url, f"the blob endpoint that {label} makes")
    endpoint, _, signature = url.partition("?")
    return StorageString(
        ";".join(f"{_KNOWN_KEYS.get(key, key)}={value}" for key, value in parts.items()),
        endpoint,
        account=parts.get("accountname", ""),
        key=parts.get("accountkey", ""),
        signature=parts.get("sharedaccesssignature") or signature,
    )


def _check_way_in(parts: dict[str, str], label: str) -> None:
    signed = parts.get("sharedaccesssignature") or "sig=" in parts.get("blobendpoint", "")
    key = parts.get("accountkey")
    if not key:
        if not signed:
            raise ConfigurationError(
                f"{label} has no key: {_shown(parts)}. Add AccountName and AccountKey, or SharedAccessSignature"
            )
        return
    if not parts.get("accountname"):
        raise ConfigurationError(f"{label} has an AccountKey without AccountName: add AccountName")
    import binascii

    try:
        binascii.a2b_base64(key, strict_mode=True)
    except ValueError:
        raise ConfigurationError(f"AccountKey in {label} is not base64: copy the whole key again") from None


def _parts(text: str, label: str) -> dict[str, str]:
    """Return the values of a connection string by lower-case key."""
    parts: dict[str, str] = {}
    for number, part in enumerate(text.split(";"), start=1):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        key = key.strip().lower()
        if not equals or not key:
            raise ConfigurationError(f"{label} can't be parsed: its part {number} is not Key=Value")
        if key in parts:
            raise ConfigurationError(f"{label} has {_KNOWN_KEYS.get(key, 'a key')} twice: keep one of them")
        parts[key] = value.strip()
    return parts


def _shown(parts: dict[str, str]) -> str:
    """Say what the string has, by the names of well-known keys: other keys might be misplaced secrets."""
    known = [_KNOWN_KEYS[key] for key, value in parts.items() if key in _KNOWN_KEYS and value]
    return f"it has only {', '.join(known)}" if known else "it has none of a storage account's keys"


def checked_url(text: str, label: str) -> str:
    """Return a blob service's URL without a slash at its end, or raise a ConfigurationError."""
    from urllib.parse import urlsplit

    try:
        url = urlsplit(text)
        fine = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None and url.port != 0
    except ValueError:
        fine = False
    if not fine or any(char <= " " for char in text):
        raise ConfigurationError(f"{label} is not a URL: give one such as https://myaccount.blob.core.windows.net")
    return text.rstrip("/")


def development_storage(text: str, label: str) -> str:
    """Return the emulator's connection string in full for ``UseDevelopmentStorage=true``, any other text unchanged."""
    parts = _parts(text, label)
    if "usedevelopmentstorage" not in parts:
        return text
    if parts["usedevelopmentstorage"].lower() != "true":
        raise ConfigurationError(f"UseDevelopmentStorage in {label} is not 'true': leave it out to use an account")
    others = set(parts) - {"usedevelopmentstorage", "developmentstorageproxyuri"}
    if others:
        raise ConfigurationError(f"{label} has UseDevelopmentStorage and an account: keep one of them")
    proxy = checked_url(parts.get("developmentstorageproxyuri") or "http://127.0.0.1", f"the proxy in {label}")
    host = proxy.rpartition(":")[0] if proxy.rpartition(":")[2].isdigit() else proxy
    ports = {"Blob": 10000, "Queue": 10001, "Table": 10002}
    endpoints = [f"{service}Endpoint={host}:{port}/{_DEVELOPMENT_ACCOUNT}" for service, port in ports.items()]
    account = f"AccountName={_DEVELOPMENT_ACCOUNT};AccountKey={_DEVELOPMENT_KEY}"
    return ";".join([f"DefaultEndpointsProtocol={proxy.partition(':')[0]}", account, *endpoints])
