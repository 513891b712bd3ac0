"""Checks ID tokens: whose signature, for whom, until when, and in answer to which request. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from .refusals import SignInRefused

# By a private key of the provider alone. Never `none`, and never HS256, whose "secret" anybody could take the public
# key for.
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
LEEWAY_S: Final = 120.0
_MOST_CHARACTERS: Final = 64 << 10


class BadSignature(SignInRefused):
    """No key of the set that was given made this signature; a newer set may have one."""

    def __init__(self, fact: str) -> None:
        super().__init__("untrusted", fact=fact)


def checked(
    token: str, keys: KeySet, *, issuer: str, client_id: str, nonce: str, now: float, offered: Collection[str] = ()
) -> dict[str, Any]:
    """The claims. ``offered``: the algorithms that the provider says it signs with; none: any that is safe.

    Raises:
        BadSignature: no key fits, or the algorithm is not taken.
        SignInRefused: another fault.
    """
    if not isinstance(token, str) or not 0 < len(token) <= _MOST_CHARACTERS:
        raise SignInRefused("odd", fact="there is no ID token, or it is too long")
    taken = sorted(ALGORITHMS & frozenset(offered)) if offered else sorted(ALGORITHMS)
    try:
        claims: dict[str, Any] = dict(jwt.decode(token, keys, algorithms=taken).claims)
    except (JoseError, ValueError, TypeError) as error:
        raise BadSignature(f"the ID token: {type(error).__name__}: {str(error)[:200]}") from error
    _check(claims, issuer=issuer, client_id=client_id, nonce=nonce, now=now)
    return claims


def _check(claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now: float) -> None:
    if claims.get("iss") != issuer:
        raise SignInRefused("untrusted", fact=f"the ID token is of the issuer {str(claims.get('iss'))[:200]!r}")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences:
        raise SignInRefused("untrusted", fact=f"the ID token is for {str(audience)[:200]}, not for this client")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != client_id:
        raise SignInRefused("untrusted", fact="the ID token was given to another client (azp)")
    if claims.get("nonce") != nonce:
        raise SignInRefused("untrusted", fact="the ID token answers another request (nonce)")
    ends, made = _instant(claims, "exp"), _instant(claims, "iat")
    if ends is None or made is None:
        raise SignInRefused("odd", fact="the ID token has no `exp` or no `iat`")
    if made > now + LEEWAY_S:
        raise SignInRefused("clock", fact=f"the ID token was made {made - now:.0f} s in the future")
    if ends <= now - LEEWAY_S:
        raise SignInRefused("clock", fact=f"the ID token ended {now - ends:.0f} s ago")
    if (_instant(claims, "nbf") or 0.0) > now + LEEWAY_S:
        raise SignInRefused("clock", fact="the ID token is not valid yet")


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
