"""Ways to sign in: by a provider, and of a command line that somebody lets in."""

from __future__ import annotations

from pydantic import Field, StrictBool

from .accounts import Session
from .base import ApiRequest, ApiResponse


class SignInWays(ApiResponse):
    passwords: str = Field(description="whose passwords open sessions: on (everybody's) · admins · off (nobody's)")
    provider: str | None = Field(description="what stands on the button for GET /session/provider; null: there is none")
    problems: dict[str, str] = Field(
        description="sentences for the word that the provider's way back leaves in the page's address as `sign_in`"
    )


class SignInAsked(ApiResponse):
    code: str = Field(description="to be typed on the page, or compared there")
    path: str = Field(description="of the page that asks whether this command line may come in")
    secret: str = Field(description="for POST /session/requests/poll; nobody else gets it")
    expires_in_s: float
    every_s: float = Field(description="how often to ask for the decision")


class SignInPoll(ApiRequest):
    secret: str = Field(max_length=200)


class SignInPolled(ApiResponse):
    state: str = Field(description="waiting · approved · denied")
    session: Session | None = Field(description="once, with `approved`")


class SignInWaiting(ApiResponse):
    """A command line that asks to be let in as the account that looks at this."""

    code: str
    address: str = Field(description="where it runs, as this server sees it")
    agent: str = Field(description="what it calls itself")
    ends_in_s: float


class SignInDecision(ApiRequest):
    approve: StrictBool


class ProviderLink(ApiResponse):
    issuer: str
    subject: str = Field(description="what the provider calls the person; it never changes")
    linked_at: float
    linked_by: str


class ProviderLinkList(ApiResponse):
    links: list[ProviderLink]


class ProviderLinkCreate(ApiRequest):
    subject: str = Field(
        min_length=1, max_length=255, description="as a refused sign-in tells it in the audit log (`provider_subject`)"
    )


class Unlinked(ApiResponse):
    unlinked: int = Field(description="how many people at the provider could sign in as this account")
