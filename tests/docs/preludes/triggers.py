"""The blob of docs/triggers.md, in memory."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any, Self
from unittest.mock import patch

from azure.storage.blob import BlobClient


class _Blob:
    text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def download_blob(self) -> Any:
        return _Download(self.text.encode())

    def upload_blob(self, text: str, *, overwrite: bool) -> None:
        self.text = text if overwrite else self.text


class _Download(BytesIO):
    readall = BytesIO.read


_blob = _Blob()
_fakes = (
    patch.object(BlobClient, "from_connection_string", return_value=_blob),
    patch.dict(os.environ, {"AzureWebJobsStorage": "UseDevelopmentStorage=true"}),
)


def beforehand() -> None:
    _blob.text = "6"
    for fake in _fakes:
        fake.start()


def afterwards(shown: Any) -> None:
    for fake in _fakes:
        fake.stop()
    assert shown.count_sale
    assert _blob.text == "7"
