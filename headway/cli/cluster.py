"""queue, nodes, users."""

from __future__ import annotations

import time
from typing import Any

import click

from ..model.ulimits import told
from ..units import counted
from . import drain
from . import gpus as who_has
from .common import ago, client, grants, lines_of_input, output_option, print_json, safe, size, span, table, tone
from .nodes_top import nodes_top
from .quota import AS_CONFIGURED, QUOTA_FORMS, parse_quota
from .start_times import clock, preview_command, promised, starts_about
from .trust import nodes_invitations, nodes_invite, nodes_uninvite
from .why import why_cell

_MOST_RUNNING = 20
# Ways of giving GPUs to containers (docs/gpus.md), as people read them.
_PASSING = {
    "device_request": "Docker's device request (device_request)",
    "cdi": "the engine's CDI lists (cdi)",
    "device_nodes": "their device files (device_nodes)",
}
_VERSIONS = {"driver": "driver_version", "CUDA": "cuda_version"}


@click.group(invoke_without_command=True)
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@click.option("--mine", "owner", flag_value="me", help="Only your own tasks.")
@click.option("--owner", help="Only this account's tasks.")
@output_option
@click.pass_context
def queue(ctx: click.Context, limit: int, owner: str | None, output: str) -> None:
    """Show what runs and what it holds, then the waiting tasks in their order, and why each one waits.

    WHY is the reason that tells most; (+2): there are two more, which -o json has. Admins can change the rules of
    that order.
    """
    if ctx.invoked_subcommand is None:
        _show_queue(limit, owner or "", output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


@queue.command("set")
@click.option("--policy", help="Who goes first, for instance log_aging:c=600; `default`: as configured.")
@click.option("--discipline", help="Who may overtake: conservative, easy, greedy or strict; `default`: as configured.")
@output_option
def queue_set(policy: str | None, discipline: str | None, output: str) -> None:
    """Change the rules of the queue: who goes first, and who may overtake.

    No waiting task is lost, and promised starts stay.
    """
    wanted = {k: v for k, v in (("policy", policy), ("discipline", discipline)) if v is not None}
    if not wanted:
        raise click.UsageError("say what to set, for instance --policy log_aging:c=600")
    with client() as http:
        answer = http.set_scheduling(wanted)
    if output == "json":
        print_json(answer)
        return
    for line in _scheduling_lines(answer):
        click.echo(line)


def _scheduling_lines(scheduling: dict[str, Any]) -> list[str]:
    """What orders the queue, and who said so."""
    lines = []
    for what in ("policy", "discipline"):
        by = scheduling[f"{what}_set_by"]
        told = "as configured"
        if by:
            told = f"set by {safe(by)} {ago(scheduling[f'{what}_set_at'])}; "
            told += f"configured: {safe(scheduling[f'configured_{what}'])}"
        name = "overtaking" if what == "discipline" else what
        lines.append(f"{name} {safe(scheduling[what])} ({told})")
    if scheduling["failure"]:
        lines.append("! the policy fails: " + safe(scheduling["failure"]))
    if scheduling.get("growth_failure"):
        lines.append("! the hook for growth failed: " + safe(scheduling["growth_failure"]))
    lines += ["! the limits contradict each other: " + safe(sentence) for sentence in scheduling["contradictions"]]
    return lines


def _show_queue(limit: int, owner: str, output: str) -> None:
    with client() as http:
        answer = http.queue(limit=limit, owner=owner, running=limit if output == "json" else min(limit, _MOST_RUNNING))
    if output == "json":
        print_json(answer)
        return
    click.echo(
        f"{answer['total_waiting']} waiting, {answer['total_running']} running "
        f"(policy {answer['policy']}, overtaking {answer['discipline']})"
    )
    if owner:
        click.echo(f"{answer['total_matching']} of the waiting are {'yours' if owner == 'me' else 'of ' + safe(owner)}")
    scheduling = answer["scheduling"]
    if any(
        scheduling[key] for key in ("policy_set_by", "discipline_set_by", "failure", "contradictions")
    ) or scheduling.get("growth_failure"):
        for line in _scheduling_lines(scheduling):
            click.echo(line)
    if scheduling.get("promises") == "late" and scheduling["promised"]:
        later = span(max(1, round(scheduling["slack_s"])))
        of = counted(answer["total_waiting"], "waiting task")
        are, average = ("is", "") if scheduling["promised"] == 1 else ("are", "on average ")
        click.echo(f"{scheduling['promised']} of {of} {are} promised a start, {average}{later} later than estimated")
    now = time.time()
    _show_running(answer.get("running", []), answer.get("running_matching", 0), now)
    rows = [
        [
            entry["position"] or "-",
            f"{entry['job_id']}/{entry['task']}",
            entry["owner"],
            span(entry["timeout_s"]),
            gpus_of(entry["resources"]),
            f"{entry['resources']['cpus']:g}",
            size(entry["resources"]["memory_bytes"]),
            starts_about(entry, now),
            promised(entry, now),
            safe(why_cell(entry["waits"])),
        ]
        for entry in answer["entries"]
    ]
    if rows:
        columns = [
            "place",
            "task",
            "owner",
            "timeout",
            "gpus",
            "cpus",
            "memory",
            "starts about",
            "no later than",
            "why",
        ]
        table(columns, rows)
        if any(entry["estimate_rough"] for entry in answer["entries"]):
            click.echo("~ a rough estimate: no machine is reserved for that task yet")


def _show_running(running: list[dict[str, Any]], of: int, now: float) -> None:
    if not running:
        return
    rows = [
        [
            who_has.task_of(one),
            safe(one["owner"]),
            gpus_of(one["resources"]),
            f"{one['resources']['cpus']:g}",
            size(one["resources"]["memory_bytes"]),
            one["node_id"],
            ago(one["since_at"], now),
            who_has.ends_by(one, now),
            safe(one["job_name"]),
        ]
        for one in running
    ]
    table(["running", "owner", "gpus", "cpus", "memory", "node", "since", "ends by", "job"], rows)
    if of > len(running):
        click.echo(f"(and {of - len(running)} more; the next to end stand first)")
    click.echo()


queue.add_command(preview_command)


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def nodes(ctx: click.Context, output: str) -> None:
    """Show machines. Admins can close them for new work and open them again."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(nodes_ls, output=output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


@nodes.command("ls")
@output_option
def nodes_ls(output: str = "table") -> None:
    """List machines."""
    with client() as http:
        found = http.nodes()
    if output == "json":
        print_json(found)
        return
    rows = [
        [
            node["id"],
            tone(node["health"]),
            tone(node["admission"]),
            *_booked(node),
            _number(node["cpus_used"]),
            size(node["memory_used_bytes"]),
            _gpus(node),
            node["live_attempts"],
            node["runtime"],
            _why(node),
        ]
        for node in found
    ]
    booked = ["gpus booked", "cpus booked", "memory booked"]
    table(["node", "health", "admission", *booked, "cpus used", "memory used", "gpus", "running", "runtime", ""], rows)


def _why(node: dict[str, Any]) -> str:
    """What there is to know of a machine beyond its numbers."""
    told = "; ".join(safe(c["sentence"]) for c in node["conditions"]) or safe(node["note"])
    drained = node.get("drain")
    if drained is None or not drained["attempts_left"]:
        return told
    until = f" by {clock(drained['until_at'], time.time())}" if drained["until_at"] is not None else ""
    return "; ".join(one for one in (f"{drained['attempts_left']} left to end{until}", told) if one)


def _booked(node: dict[str, Any]) -> list[str]:
    """What running tasks hold of a machine, of what there is; a question mark where it is not known now."""
    held = node.get("booked") or {"gpus": "?", "cpus": None, "memory_bytes": None}
    cpus = "?" if held["cpus"] is None else f"{held['cpus']:g}"
    memory = "?" if held["memory_bytes"] is None else size(held["memory_bytes"])
    return [
        f"{held['gpus']}/{len(node['gpus'])}" if node["gpus"] else "-",
        f"{cpus}/{node['cpus']:g}",
        f"{memory}/{size(node['memory_bytes'])}",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def gpus_of(resources: dict[str, Any]) -> object:
    """What a task has of GPUs: their number, or its share of one."""
    share = resources.get("gpu_share_bytes")
    return f"{size(share)} of 1" if share else resources["gpus"]


def _gpus(node: dict[str, Any]) -> str:
    models: dict[str, int] = {}
    for gpu in node["gpus"]:
        label = safe(gpu["model"]) + (" (simulated)" if gpu["simulated"] else "")
        models[label] = models.get(label, 0) + 1
    return ", ".join(f"{count} x {model}" for model, count in models.items()) or "-"


@nodes.command("show")
@click.argument("node_id")
@output_option
def nodes_show(node_id: str, output: str) -> None:
    """Show one machine."""
    with client() as http:
        node = http.node(node_id)
    if output == "json":
        print_json(node)
        return
    click.echo(f"{node['id']}  {tone(node['health'])}, {tone(node['admission'])}, last answered {ago(node['seen_at'])}")
    if node["health_sentence"]:
        click.echo(safe(node["health_sentence"]))
    click.echo(
        f"runtime {node['runtime']} {node['engine_version']} on {node['architecture']}, Headway {node['version']}"
    )
    told_of_gpus = [f"{what} {safe(node[key])}" for what, key in _VERSIONS.items() if node.get(key)]
    if passing := node.get("gpu_passing"):
        told_of_gpus.insert(0, f"GPUs are given by {_PASSING.get(passing, safe(passing))}")
    if told_of_gpus:
        click.echo(", ".join(told_of_gpus))
    gpus_booked, cpus_booked, memory_booked = _booked(node)
    click.echo(f"booked: GPUs {gpus_booked}, CPUs {cpus_booked}, memory {memory_booked}")
    for missing in node.get("missing", []):
        click.echo(safe(missing["sentence"]))
    click.echo(f"CPUs in use {_number(node['cpus_used'])} of {node['cpus']:g}, load {_number(node['load1'])}")
    click.echo(f"memory in use {size(node['memory_used_bytes'])} of {size(node['memory_bytes'])}")
    if limits := node.get("most_ulimits"):
        click.echo("ulimits up to " + ", ".join(f"{name} {told(name, most)}" for name, most in limits.items()))
    click.echo(f"disk {size(node['disk_free_bytes'])} free of {size(node['disk_total_bytes'])}")
    for gpu in node["gpus"]:
        state = "faulty" if gpu["sick"] else "used by another program" if gpu["busy_outside"] else "without faults"
        held = gpu.get("booking")
        by = f", held by {safe(held['owner'])}: {who_has.task_of(held)}" if held else ""
        model = safe(gpu["model"]) + (" (simulated)" if gpu["simulated"] else "")
        why = f": {safe(gpu['note'])}" if gpu["note"] else ""
        click.echo(f"GPU {gpu['index']} {gpu['uuid']} {model} {size(gpu['memory_bytes'])}: {state}{by}{why}")
        for share in gpu.get("shares") or []:
            held_bytes = size(share["resources"]["gpu_share_bytes"])
            click.echo(f"  shared: {held_bytes} of {safe(share['owner'])}: {who_has.task_of(share)}")
        if gpu.get("shared") and gpu.get("free_share_bytes") is not None:
            click.echo(f"  given out in shares; room for one of {size(gpu['free_share_bytes'])}")
        for process in gpu.get("processes") or []:
            click.echo(f"  {who_has.process_words(process)}")
    for condition in node["conditions"]:
        click.echo(f"{condition['word']} (since {ago(condition['since_at'])}): {safe(condition['sentence'])}")
    if node.get("drain"):
        click.echo(drain.progress(node, time.time()))
    for line in drain.shown_events(node):
        click.echo(line)
    if node["images"]:
        click.echo("images: " + ", ".join(safe(i) for i in node["images"][:20]))


def _node_action(action: str, text: str) -> None:
    @nodes.command(action, help=text)
    @click.argument("node_id")
    @click.option("--note", default="", help="The reason, shown to everybody.")
    @output_option
    def command(node_id: str, note: str, output: str) -> None:
        with client() as http:
            answer = http.node_action(node_id, action, note)
        if output == "json":
            print_json(answer)
        elif "attempts_lost" in answer:
            lost = counted(answer["attempts_lost"], "attempt")
            click.echo(f"{node_id}: {lost} declared lost; their tasks are queued again")
        else:
            click.echo(f"{answer['id']}: {tone(answer['admission'])}")
            if answer["changed"]:
                click.echo(safe(answer["changed"]))


_node_action("cordon", "Start no new work on a machine; what runs there goes on.")
_node_action("uncordon", "Let a machine take work again.")
_node_action(
    "lost",
    "Declare that a machine will not come back. Its running tasks are queued again at once. A machine that still "
    "answers is refused: `drain` it, or stop its worker first.",
)


for one in (nodes_top, drain.drain, drain.replace, drain.forget, nodes_invite, nodes_invitations, nodes_uninvite):
    nodes.add_command(one)


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def users(ctx: click.Context, output: str) -> None:
    """Accounts (admins)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(users_ls, output=output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


@users.command("ls")
@output_option
def users_ls(output: str = "table") -> None:
    """List accounts."""
    with client() as http:
        found = http.users()
    if output == "json":
        print_json(found)
        return
    rows = [
        [
            u["name"],
            "admin" if u["admin"] else "user",
            "yes" if u["enabled"] else "no",
            u["uid"],
            size(u.get("space_used_bytes")),
            "-" if u.get("space_limit_bytes") is None else size(u["space_limit_bytes"]),
            ago(u["signed_in_at"]),
            ", ".join(grants(u)) or "-",
        ]
        for u in found
    ]
    table(["name", "role", "enabled", "uid", "space used", "of", "signed in", "grants"], rows)


@users.command("add")
@click.argument("name")
@click.option("--admin", is_flag=True, help="Make it an admin.")
@click.option("--image-user", "may_use_image_user", is_flag=True, help="May run tasks as the user of the image.")
@click.option("--high-priority", "may_use_high_priority", is_flag=True, help="May submit jobs of high priority.")
@click.option("--quota", help=f"Quota of the personal space: {QUOTA_FORMS}.")
@click.option("--uid", type=int, help="The next free one if left out.")
@click.option("--gid", type=int, help="The same as the uid if left out.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input; one is made otherwise.")
@output_option
def users_add(name: str, quota: str | None, password_stdin: bool, output: str, **more: Any) -> None:
    """Make an account. A password that Headway made is printed once."""
    fields: dict[str, Any] = {"name": name, **{key: value for key, value in more.items() if value is not None}}
    if quota is not None and (wanted := parse_quota(quota)) != AS_CONFIGURED:
        fields["quota_bytes"] = wanted
    if password_stdin:
        fields["password"] = lines_of_input(1)[0]
    with client() as http:
        answer = http.create_user(**fields)
    if output == "json":
        print_json(answer)
        return
    click.echo(f"made {answer['user']['name']} (uid {answer['user']['uid']})")
    if answer.get("password"):
        click.echo(f"password: {answer['password']}")


_GRANTS = {
    "admin": ("an admin", "no admin"),
    "enabled": ("enabled", "disabled"),
    "may_use_image_user": ("may run tasks as the image says", "may not run tasks as the image says"),
    "may_use_high_priority": ("may use high priority", "may not use high priority"),
}


@users.command("set")
@click.argument("name")
@click.option("--admin/--no-admin", default=None, help="Is an admin.")
@click.option("--enable/--disable", "enabled", default=None, help="May sign in.")
@click.option(
    "--image-user/--no-image-user",
    "may_use_image_user",
    default=None,
    help="May run tasks as the user that the image names.",
)
@click.option(
    "--high-priority/--no-high-priority",
    "may_use_high_priority",
    default=None,
    help="May submit jobs of high priority.",
)
@click.option("--quota", help=f"Quota of the personal space: {QUOTA_FORMS}.")
@output_option
def users_set(name: str, quota: str | None, output: str, **changes: bool | None) -> None:
    """Change an account."""
    wanted: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    if quota is not None:
        wanted["quota_bytes"] = parse_quota(quota)
    if not wanted:
        raise click.UsageError("say what to change, for instance --disable")
    with client() as http:
        user = http.change_user(name, wanted)
    if output == "json":
        print_json(user)
        return
    click.echo(f"{user['name']}: " + ", ".join(_in_words(key, user[key]) for key in wanted))


def _in_words(key: str, value: Any) -> str:
    if key == "quota_bytes":
        if value:
            return f"the personal space may hold {size(value)}"
        return "the personal space has no limit" if value == 0 else "the personal space may hold what is configured"
    return _GRANTS[key][0 if value else 1]
