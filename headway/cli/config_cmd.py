"""config show: every value and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import output_option, print_json, table


@click.group()
def config() -> None:
    """Show the configuration and where each value came from."""


@config.command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="headway.toml; HEADWAY_CONFIG, else /etc/headway/headway.toml, else that of `headway up`.",
)
@click.argument("section", required=False)
@output_option
def show(config_path: Path | None, section: str | None, output: str) -> None:
    """Print all values, or those of one SECTION, with their origin. Secrets are hidden.

    What a service that is installed here would refuse is told on standard error.
    """
    from ..config import default_path, load
    from ..config.checks import outage_borne_s
    from ..config.loading import flattened
    from ..config.sections import SECRET_KEYS
    from ..units import format_duration
    from ..up.checks import refusals

    loaded = load(config_path or default_path())
    rows = {}
    for key, value in flattened(loaded.config):
        if section is None or key == section or key.startswith(f"{section}."):
            shown: Any = "[hidden]" if key in SECRET_KEYS and value else _without_password(value)
            rows[key] = {"value": shown, "source": loaded.sources[key]}
    if not rows:
        raise click.BadParameter(f"there is no section or key {section!r}", param_hint="SECTION")
    if output == "json":
        print_json(rows)
    else:
        table(("key", "value", "from"), [(key, _text(row["value"]), row["source"]) for key, row in rows.items()])
        if "cluster.lease_s" in rows:
            borne = format_duration(outage_borne_s(loaded.config))
            click.echo(
                f"\nAn outage of the scheduler of less than {borne} ends no task "
                "(lease_s - lease_stop_s - heartbeat_s)."
            )
    for sentence in refusals(loaded):
        click.echo(f"headway: {sentence}", err=True)


def _without_password(value: Any) -> Any:
    if isinstance(value, str) and "://" in value and "@" in value:
        scheme, _, rest = value.partition("://")
        user, at, host = rest.rpartition("@")
        name, colon, _ = user.partition(":")
        return f"{scheme}://{name}{':***' if colon else ''}{at}{host}"
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        dumped = {key: getattr(inner, "model_dump", None) for key, inner in value.items()}
        return {key: dump(exclude_none=True) if dump else value[key] for key, dump in dumped.items()}
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if value < 1e6 else str(int(value))
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        texts = {k: f"({_text(v)})" if isinstance(v, dict) else _text(v) for k, v in value.items()}
        return ", ".join(f"{k}: {text}" for k, text in texts.items()) or "-"
    return str(value) if value not in ("", None) else "-"
