"""Token credentials for a storage account, from azure-identity, which is an extra and imported only when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

    from singleton.settings.credentials import CredentialSpec


def open_credential(spec: CredentialSpec) -> AsyncTokenCredential:
    """Make the credential that the settings describe (H-26 to H-28).

    Raises:
        ConfigurationError: azure-identity is not installed.
    """
    try:
        from azure.identity import aio
    except ImportError:
        raise ConfigurationError(
            "this connection uses an identity, and azure-identity is not installed: "
            "add azure-functions-singleton[identity] to requirements.txt, or give a connection string"
        ) from None
    match spec.kind:
        case "managed_identity":
            return aio.ManagedIdentityCredential(**_managed(spec))
        case "workload_identity":
            return aio.WorkloadIdentityCredential(
                tenant_id=spec.tenant_id, client_id=spec.client_id, token_file_path=spec.token_file
            )
        case "client_secret":
            return aio.ClientSecretCredential(spec.tenant_id or "", spec.client_id or "", spec.client_secret or "")
        case "client_certificate":
            return aio.CertificateCredential(spec.tenant_id or "", spec.client_id or "", spec.certificate)
        case "default":
            return aio.DefaultAzureCredential(
                managed_identity_client_id=spec.client_id, workload_identity_tenant_id=spec.tenant_id
            )


def _managed(spec: CredentialSpec) -> dict[str, Any]:
    """A client id has an argument of its own; the other ways to name an identity share one."""
    if spec.client_id:
        return {"client_id": spec.client_id}
    if spec.resource_id or spec.object_id:
        key, value = ("resource_id", spec.resource_id) if spec.resource_id else ("object_id", spec.object_id)
        return {"identity_config": {key: value}}
    return {}
