"""Why a registry did not say which image a name means."""

from __future__ import annotations

from enum import Enum

from headway.errors import HeadwayError


class FailureKind(Enum):
    """What went wrong. The first four are final answers of the registry or the admin: asking again won't help."""

    ABSENT = "absent"
    DENIED = "denied"
    WRONG_LOGIN = "wrong_login"
    NOT_HERE = "not_here"  # this installation asks no such host
    UNREACHABLE = "unreachable"
    SLOW = "slow"
    LIMITED = "limited"
    STRANGE = "strange"  # what it answers makes no sense


_DEFINITE = frozenset({FailureKind.ABSENT, FailureKind.DENIED, FailureKind.WRONG_LOGIN, FailureKind.NOT_HERE})
_OF_THE_HOST = frozenset({FailureKind.UNREACHABLE, FailureKind.SLOW})


class RegistryFailure(HeadwayError):
    """The message is a whole sentence that names the registry."""

    code = "UNAVAILABLE"
    http_status = 502
    slug = "registry-failed"
    title = "The registry could not be asked"

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def definite(self) -> bool:
        """Whether the image is surely not to be had so."""
        return self.kind in _DEFINITE

    @property
    def of_the_host(self) -> bool:
        """Whether other questions to the same host would fail now too."""
        return self.kind in _OF_THE_HOST
