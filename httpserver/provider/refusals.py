"""Why a sign-in by the provider failed: a word for the address, a sentence for the person, facts for the log. Pure."""

from __future__ import annotations

from typing import Final

from headway.errors import HeadwayError

SENTENCES: Final = {
    "away": "The sign-in provider does not answer. Try again soon; if it stays so, tell an admin.",
    "secret": "The provider does not take Headway's own client id or secret. An admin has to set them anew.",
    "odd": "The provider's answer can't be used, so nobody was signed in. The log of Headway tells an admin more.",
    "untrusted": "The provider's answer can't be trusted, so nobody was signed in. The log of Headway says why.",
    "clock": "The clocks of Headway and of the provider differ too much. Ask an admin to set them.",
    "denied": "You or the provider broke the sign-in off. Begin anew if you want to sign in.",
    "stale": "This sign-in was begun too long ago or in another browser, or it was used already. Begin anew.",
    "not-allowed": "Your account at the provider may not use this Headway. Ask an admin if it should.",
    "no-name": "The provider tells no name that an account here can have. Ask an admin to make an account and link it.",
    "name-taken": "An account of your name is here already, and it is not linked to you. Ask an admin to link it.",
    "no-account": "You have no account here yet, and none is made by itself. Ask an admin for one.",
    "disabled": "Your account here is disabled. Ask an admin.",
    "failed": "Something inside Headway failed, so nobody was signed in. Its log has more.",
}  # fmt: skip


class SignInRefused(HeadwayError):
    """A sign-in by the provider that came to nothing. ``fact``: for the log alone."""

    code = "PERMISSION_DENIED"
    http_status = 403
    slug = "sign-in-refused"
    title = "The sign-in by the provider failed"

    def __init__(self, word: str, *, fact: str = "") -> None:
        super().__init__(SENTENCES[word])
        self.word = word
        self.fact = fact
