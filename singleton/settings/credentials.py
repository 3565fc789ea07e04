"""Which identity a connection asks for: ``__credential``, ``__clientId`` and their like (H-26 to H-28)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from singleton.base.appsettings import filled
from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

CredentialKind = Literal["managed_identity", "workload_identity", "client_secret", "client_certificate", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSpec:
    """What to build a token credential from; ``kind`` says which of the other attributes count.

    Attributes:
        kind: managed_identity (system-assigned, or one of client_id, resource_id, object_id); workload_identity and
            client_secret and client_certificate (tenant_id, client_id and one more); default: the default chain,
            told about tenant_id and client_id where they are given.
        certificate: path of a PEM or PFX file. (.NET takes the thumbprint of a certificate in the machine's store.)
        token_file: path of the federated token.
    """

    kind: CredentialKind
    tenant_id: str | None = None
    client_id: str | None = None
    resource_id: str | None = None
    object_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    certificate: str | None = None
    token_file: str | None = None


def credential_of(name: str, keys: Mapping[str, str], settings: Mapping[str, str]) -> CredentialSpec:
    """Return the identity that the connection ``name`` asks for.

    Args:
        name: the connection's name or prefix, for messages.
        keys: its settings by normalised key, none of them blank: ``{"credential": "managedidentity", …}``.
        settings: the app settings, for the ``AZURE_*`` ones that complete a workload identity.

    Raises:
        ConfigurationError: the settings contradict one another, or something is missing.
    """
    asked = keys.get("credential", "").lower()
    if asked == "managedidentity":
        return _managed_identity(name, keys)
    if asked == "workloadidentity":
        return _workload_identity(name, keys, settings)
    if asked:
        raise ConfigurationError(
            f"{name}__credential is {quoted(asked)}: give 'managedidentity' or 'workloadidentity', or leave it out"
        )
    tenant_id, client_id = keys.get("tenantid"), keys.get("clientid")
    secret, certificate = keys.get("clientsecret"), keys.get("clientcertificate")
    known = CredentialSpec(kind="default", tenant_id=tenant_id, client_id=client_id)
    if not secret and not certificate:
        return replace(known, resource_id=keys.get("managedidentityresourceid"))
    if not tenant_id or not client_id:
        key = "clientSecret" if secret else "clientCertificate"
        raise ConfigurationError(f"{name}__{key} needs {name}__tenantId and {name}__clientId as well: set them")
    if secret:
        return replace(known, kind="client_secret", client_secret=secret)
    return replace(known, kind="client_certificate", certificate=certificate)


def _managed_identity(name: str, keys: Mapping[str, str]) -> CredentialSpec:
    spellings = ("clientId", "managedIdentityClientId", "managedIdentityResourceId", "managedIdentityObjectId")
    given = [spelt for spelt in spellings if spelt.lower() in keys]
    if len(given) > 1:
        listed = " and ".join(f"{name}__{spelt}" for spelt in given)
        raise ConfigurationError(f"{listed} each name a managed identity: keep one of these settings")
    return CredentialSpec(
        kind="managed_identity",
        client_id=keys.get("clientid") or keys.get("managedidentityclientid"),
        resource_id=keys.get("managedidentityresourceid"),
        object_id=keys.get("managedidentityobjectid"),
    )


def _workload_identity(name: str, keys: Mapping[str, str], settings: Mapping[str, str]) -> CredentialSpec:
    def found(key: str, variable: str) -> str:
        value = keys.get(key.lower()) or filled(settings, variable)
        if value is None:
            raise ConfigurationError(
                f"{name}__credential is 'workloadidentity': set {name}__{key} or {variable} as well"
            )
        return value

    return CredentialSpec(
        kind="workload_identity",
        tenant_id=found("tenantId", "AZURE_TENANT_ID"),
        client_id=found("clientId", "AZURE_CLIENT_ID"),
        token_file=found("tokenFilePath", "AZURE_FEDERATED_TOKEN_FILE"),
    )
