"""The way back for whoever lost the last password: who may write beside the first admin's file asks by a file there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headway.logs import get_logger

from .accounts import Accounts, write_private
from .passwords import new_password

log = get_logger(__name__)

WISH = ".reset"  # behind the name of the first admin's file; it holds the name of an account


async def reset_wished(accounts: Accounts, file: Path) -> None:
    """Gives the account that the wish beside ``file`` names another password, written to ``file``, and enables it.

    Its sessions and tokens end. The password comes into the file first, and the wish goes last: after a crash in
    between the next start begins anew. A wish for an account that isn't there is dropped. The password counts until the
    next start even where passwords are switched off, so that nobody is shut out while the provider is away.
    """
    wish = file.with_name(file.name + WISH)
    try:
        name = (await asyncio.to_thread(wish.read_text, "utf-8")).strip()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        log.warning("account.reset_unreadable", file=str(wish), error=str(error))
        return
    if accounts.get(name) is None:
        log.warning("account.reset_unknown", name=name[:64], file=str(wish))
    else:
        password = new_password()
        await asyncio.to_thread(write_private, file, f"{name}\n{password}\n")
        await accounts.reset_by_operator(name, password)
        log.info("account.reset_by_operator", name=name, file=str(file))
    await asyncio.to_thread(wish.unlink, missing_ok=True)
