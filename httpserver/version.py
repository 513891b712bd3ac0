"""Which Headway this is."""

from __future__ import annotations

from headway.plugins import own_version

VERSION = own_version()
