"""Removing an account: its personal space first, then the account itself, so that a failure can be repeated."""

from __future__ import annotations

import asyncio
from typing import Literal

from headway.errors import Conflict, InvalidInput, MountUnavailable, NotFound, Problem
from headway.logs import get_logger
from headway.mount import Layout, MountKind, MountProbe

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..files import home_end
from ..files.homes import Homes
from .account_jobs import AccountJobs

log = get_logger(__name__)

HomeFate = Literal["keep", "hand_over", "delete"]


class AccountRemoval:
    """See the module."""

    def __init__(self, accounts: Accounts, jobs: AccountJobs, homes: Homes, layout: Layout, mount: MountProbe) -> None:
        self._accounts = accounts
        self._jobs = jobs
        self._homes = homes
        self._layout = layout
        self._mount = mount
        self._one_at_a_time = asyncio.Lock()

    async def remove(self, name: str, home: HomeFate, to: str, *, by: Account) -> str:
        """Removes the account; the path that its space has in that of ``to``, if it was handed over.

        Raises:
            NotFound: no such account, or none to hand over to.
            Conflict: it is enabled, or has jobs that have not ended.
            NotAllowed: ``by`` is no admin any more.
            InvalidInput: ``to`` without handing over, or the other way round.
            MountUnavailable: the space can't be reached or changed; nothing else has happened then.
        """
        if (home == "hand_over") != bool(to):
            sentence = "`to` names the account that gets the files, and goes with `home=hand_over` alone."
            raise InvalidInput(sentence, problems=[Problem("/to", sentence)])
        async with self._one_at_a_time, self._accounts.ending(name, by=by.name) as account:
            heir = self._heir(account, to) if to else None
            live = await self._jobs.live(name)
            if live:
                raise Conflict(
                    f"`{name}` has {len(live)} jobs that have not ended, such as {live[0]}: cancel them first "
                    f"(`headway accounts disable {name} --cancel-jobs`)."
                )
            path = ""
            if home != "keep":
                await self._mount.require(MountKind.FULL)
                path = await self._homes.run(lambda: self._end_home(account, heir), self._homes.removals)
            await self._accounts.remove(name, by=by.name)
        log.info("account.home_ended", name=name, home=home, to=to, by=by.name)
        return path

    def _heir(self, account: Account, to: str) -> Account:
        heir = self._accounts.get(to)
        if heir is None:
            sentence = f"There is no account `{to[:64]}` to hand the files over to."
            raise NotFound(sentence, problems=[Problem("/to", sentence)])
        if heir.name == account.name:
            sentence = "The files go to another account."
            raise InvalidInput(sentence, problems=[Problem("/to", sentence)])
        return heir

    def _end_home(self, account: Account, heir: Account | None) -> str:
        try:
            if heir is not None:
                return home_end.hand_over(self._layout, account, heir)
            home_end.delete(self._layout, account)
        except OSError as error:
            raise MountUnavailable(
                f"The personal space of {account.name} can't be changed ({error.strerror}); the account is still there."
            ) from error
        return ""
