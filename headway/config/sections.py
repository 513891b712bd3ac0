"""What headway.toml holds. The descriptions are the reference in docs/configuration.md.

Empty texts of paths, databases and peers are filled in when the file is loaded, so that services always see
whole values.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from .values import (
    AccountRules,
    Address,
    Bytes,
    Days,
    FilePath,
    GpuName,
    Host,
    JobRange,
    MaxTimeout,
    Network,
    NodeName,
    OptionalAddress,
    Reach,
    RegistryHost,
    RuntimeName,
    Seconds,
    SecondsOrZero,
    SocketPath,
    SomeBytes,
    checked_number,
)

SECRET_KEYS = frozenset({"cluster.token"})

_METRICS = "where `GET /metrics` of this service is, such as 127.0.0.1:{}, in plain text and open to all who reach it"
_DATABASE = "a path, or a URL such as postgresql://headway@db/headway; by default a SQLite file in `cluster.state_dir`"


class Section(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        return checked_number(value, cls.model_fields[info.field_name or ""].annotation)


class ClusterSection(Section):
    """What all services of a cluster share; the same on every machine."""

    name: str = Field(
        default="headway",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="the cluster's name; the shared mount's marker file holds it",
    )
    token: str = Field(
        default="", repr=False, description="the secret that services show each other; better in `token_file`"
    )
    token_file: FilePath = Field(default="", description="a file that holds the token, readable by the services only")
    trust_dir: FilePath = Field(
        default="",
        description="the certificates of this machine's services (`headway init`, `headway join`): they then talk by "
        "mutual TLS, and `token` is not needed; by default none",
    )
    insecure_network: bool = Field(
        default=False,
        description="the network between the machines is trusted: without `trust_dir` gRPC may listen at more than "
        "loopback, and `metrics_listen` may in any case. The cluster's token and accounts' registry passwords then "
        "travel as plain text: whoever listens may run what they like on every machine",
    )
    mount: FilePath = Field(default="", description="the shared mount (NFS, GlusterFS, or a folder on one machine)")
    state_dir: FilePath = Field(
        default="/var/lib/headway",
        description="where services keep databases and files of their own; never on the shared mount",
    )
    heartbeat_s: Seconds = Field(default=10.0, description="how often a Worker reports to TaskManager")
    lease_s: Seconds = Field(
        default=120.0,
        description="a Worker that is silent for so long has lost its attempts; an outage of TaskManager may last "
        "`lease_s - lease_stop_s - heartbeat_s` without harm",
    )
    lease_stop_s: Seconds = Field(
        default=30.0, description="how long before the end of the lease the launcher starts to stop the task"
    )
    lease_grace_s: SecondsOrZero = Field(
        default=10.0, description="from TERM to KILL when a lease ends, whatever the task's own grace"
    )
    account_uid_min: int = Field(
        default=20_000, ge=1_000, le=2_000_000_000, description="first user id that accounts get"
    )
    account_uid_max: int = Field(
        default=59_999, ge=1_000, le=2_000_000_000, description="last user id that accounts get"
    )
    simulated: bool = Field(default=False, description="shown everywhere: on this cluster nothing really runs")


class OidcSection(Section):
    """Signing in by a provider of identities with OpenID Connect (docs/operations/sign-in.md)."""

    issuer: str = Field(
        default="",
        pattern=r"^(https?://[^\s?#]+)?$",
        description="the provider's address, exactly as it calls itself; empty: no sign-in by a provider",
    )
    client_id: str = Field(default="", description="what the provider calls this Headway")
    client_secret_file: FilePath = Field(
        default="", description="the file with the secret that the provider gave; empty: it gave none"
    )
    scopes: tuple[str, ...] = Field(
        default=("openid", "profile", "email"), description="what the provider is asked to tell; openid always"
    )
    button: str = Field(
        default="Sign in with your organization",
        min_length=1,
        max_length=60,
        description="what stands on the button of the page",
    )
    account_claim: str = Field(
        default="preferred_username",
        min_length=1,
        description="the claim that a new account is named after, up to its @",
    )
    groups_claim: str = Field(default="groups", min_length=1, description="the claim that holds the person's groups")
    allowed_domains: tuple[str, ...] = Field(
        default=(), description="only people with a confirmed mail address there may sign in; by default anybody"
    )
    allowed_groups: tuple[str, ...] = Field(
        default=(), description="only people of one of these groups may sign in; by default anybody"
    )
    admin_groups: tuple[str, ...] = Field(
        default=(),
        description="at each sign-in, who is in one of these groups becomes an admin, and who is in none is one no "
        "more; by default admins are made here",
    )
    groups: dict[str, str] = Field(
        default={},
        description='groups of the provider and of Headway that follow them at each sign-in, such as `{staff = "lab"}`',
    )
    create_accounts: bool = Field(default=True, description="whether who has no account gets one at the first sign-in")


class HttpServerSection(Section):
    """The web page and the HTTP API."""

    bind: Host = Field(
        default="127.0.0.1", description="address to listen at; others than loopback need TLS or `behind_proxy`"
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="port of page and API")
    behind_proxy: tuple[Network, ...] = Field(
        default=(), description="the proxies in front that do TLS; only their forwarded headers are believed"
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^/\s]+)?$",
        description="the address users type, where it differs from bind and port",
    )
    tls_cert: FilePath = Field(default="", description="certificate chain, PEM")
    tls_key: FilePath = Field(default="", description="its private key, PEM")
    grpc_bind: Address = Field(
        default="127.0.0.1:7000", description="where the other services ask for users and images"
    )
    metrics_listen: OptionalAddress = Field(
        default="", description="a second place for `GET /metrics`, in plain text; it is at the page's port anyway"
    )
    database: str = Field(default="", description=_DATABASE)
    session_lifetime_s: Seconds = Field(
        default=14 * 86_400.0, description="a browser session ends so long after its last use"
    )
    first_admin_file: FilePath = Field(
        default="", description="where the first start writes the first admin's name and password"
    )
    image_quota_bytes: Bytes = Field(
        default=0, description="how much the images that one account pushed may take, unpacked; 0: no limit"
    )
    default_quota_bytes: Bytes = Field(
        default=0, description="how much a personal space may hold, where its account says nothing else; 0: no limit"
    )
    space_max_files: int = Field(
        default=0,
        ge=0,
        description="how many files and folders a personal space may hold, since a disk runs out of inodes, too; 0: no "
        "limit",
    )
    space_measure_s: Seconds = Field(
        default=300.0,
        description="how often a personal space with a limit is measured; near the quota five times as often",
    )
    trash_keep_s: Seconds = Field(
        default=3 * 86_400.0, description="how long deleted files of personal spaces can be restored"
    )
    upload_expires_s: Seconds = Field(
        default=86_400.0, description="an unfinished upload that nobody goes on with is removed after so long"
    )
    upload_max_bytes: Bytes = Field(
        default=0, description="a larger upload is refused; 0: only by quotas and what the disk holds"
    )
    dataset_max_files: int = Field(
        default=1_000_000, ge=1, description="a dataset with more files and folders is refused"
    )
    code_max_bytes: Bytes = Field(default=1 << 30, description="a snapshot of code with more is refused")
    code_max_files: int = Field(default=100_000, ge=1, description="a snapshot of code with more files is refused")
    code_keep_s: Seconds = Field(
        default=30 * 86_400.0, description="a snapshot of code that no job needs goes so long after its last use"
    )
    secret_key_file: FilePath = Field(
        default="",
        description="the key that stored passwords of registries and secrets of tasks are encrypted with, made at the "
        "first start; default: `registry-key` in `cluster.state_dir`. One key a line: the first encrypts, all decrypt",
    )
    ask_registries: bool = Field(
        default=True, description="whether registries are asked at submit which digest an image's name means"
    )
    registries: tuple[RegistryHost, ...] = Field(
        default=(), description="the only registries that jobs may name; by default any"
    )
    passwords: Literal["on", "admins", "off"] = Field(
        default="on",
        description="whose passwords open sessions: everybody's, those of admins alone, or nobody's. `headway up "
        "--reset-password` on the machine itself lets an admin in all the same",
    )
    oidc: OidcSection = OidcSection()
    insecure_registries: tuple[RegistryHost, ...] = Field(
        default=(), description="registries that are asked over plain http; those on this machine are anyway"
    )


class JobManagerSection(Section):
    """Jobs and their tasks."""

    bind: Address = Field(default="127.0.0.1:7001", description="where it listens")
    metrics_listen: OptionalAddress = Field(default="", description=_METRICS.format(7101))
    database: str = Field(default="", description=_DATABASE)
    max_tasks_per_job: int = Field(default=10_000, ge=1, description="a job with more tasks is refused")
    compare_s: Seconds = Field(
        default=60.0,
        description="how often it is compared with TaskManager which tasks both hold; at each start too",
    )


class ShortReserveSection(Section):
    """GPUs that are kept for short tasks."""

    gpus: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="how many GPUs are kept for short tasks: those with a timeout above `above` may together hold "
        "all others; 0: off",
    )
    above: Seconds = Field(default=3_600.0, description="from which timeout on a task is long")


class LimitsSection(Section):
    """What TaskManager admits."""

    max_timeout: MaxTimeout = Field(
        default={0: 7 * 86_400.0},
        description="longest timeout a task may ask for: one duration, or a table by the GPUs in the cluster, such as "
        '`{0 = "1d", 8 = "7d"}` (from 8 GPUs on, 7 days)',
    )
    min_timeout: Seconds = Field(
        default=0.1,
        description="shortest timeout a task may ask for; a longer one lets starts be promised sooner, since nothing "
        "shorter can come ahead",
    )
    queued_tasks_per_user: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="tasks of one account that may wait at a time, those on hold and those that need others among "
        "them; a job or retry that would go above is refused whole; 0: no limit",
    )
    running_gpus_per_user: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="GPUs that the running tasks of one account may hold together; 0: no limit",
    )
    short_reserve: ShortReserveSection = ShortReserveSection()


class MachineShapeSection(Section):
    """A machine that the hook can make."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="what the hook calls it")
    cpus: float = Field(gt=0, le=4_096, description="its CPUs")
    memory_bytes: SomeBytes = Field(description="its memory for tasks")
    gpus: int = Field(default=0, ge=0, le=1_024, description="its GPUs")
    gpu_model: str = Field(default="", description="their model, as the driver names it")
    gpu_memory_bytes: Bytes = Field(default=0, description="memory of each")


class AutoscaleSection(Section):
    """A command or webhook that is told what the queue lacks (docs/operations/growth.md)."""

    command: list[str] = Field(
        default=[], max_length=64, description="the program with its arguments; it gets the message on stdin"
    )
    webhook: str = Field(
        default="",
        pattern=r"^(https?://[^\s/?#]+([/?#]\S*)?)?$",
        description="or the URL that gets it as a POST; no redirect is followed, and no proxy used",
    )
    webhook_secret_file: FilePath = Field(
        default="", description="a file with the key by which each message is signed (`X-Headway-Signature`)"
    )
    timeout_s: Seconds = Field(default=60.0, description="longest time of one call; then a command is killed")
    waits_s: Seconds = Field(default=60.0, description="tasks that have waited so long, and won't start sooner, count")
    idle_s: Seconds = Field(default=900.0, description="after so long without work a machine may leave")
    cooldown_s: Seconds = Field(default=300.0, description="shortest time between two calls, also over a restart")
    min_nodes: int = Field(default=0, ge=0, le=100_000, description="machines that stay")
    max_nodes: int = Field(default=10, ge=0, le=100_000, description="no more are asked for")
    shapes: list[MachineShapeSection] = Field(
        default=[],
        max_length=64,
        description="machines that the hook can make, each with `name`, `cpus`, `memory_bytes`, and `gpus`, "
        "`gpu_model` and `gpu_memory_bytes`; jobs that only these could run are taken. Empty: machines like those "
        "that there are",
    )
    dry_run: bool = Field(default=False, description="whether calls are only logged")

    @model_validator(mode="after")
    def _one_hook(self) -> AutoscaleSection:
        if self.command and self.webhook:
            raise ValueError("name a command or a webhook, not both")
        if self.command and not self.command[0]:
            raise ValueError("command: the program has no name")
        if self.min_nodes > self.max_nodes:
            raise ValueError("min_nodes must not be above max_nodes")
        names = [one.name for one in self.shapes]
        if len(set(names)) < len(names):
            raise ValueError("two shapes have the same name")
        return self

    @property
    def wanted(self) -> bool:
        """Whether anybody is told."""
        return bool(self.command or self.webhook or self.dry_run)


class TaskManagerSection(Section):
    """Queue, placement, attempts."""

    bind: Address = Field(default="127.0.0.1:7002", description="where it listens")
    metrics_listen: OptionalAddress = Field(default="", description=_METRICS.format(7102))
    database: str = Field(default="", description=_DATABASE)
    policy: str = Field(
        default="aging_sjf",
        min_length=1,
        description="the order of the queue, with parameters if any: `log_aging:c=600` (docs/scheduling.md); "
        "`headway queue set` may choose another one on the running queue",
    )
    discipline: Literal["conservative", "easy", "greedy", "strict"] = Field(
        default="conservative",
        description="which waiting tasks get a reservation, and who may start before them (docs/scheduling.md)",
    )
    promises: Literal["settled", "late"] = Field(
        default="late",
        description="conservative: when a start is promised. `settled`: once nobody new can come ahead any more. "
        "`late`: to every task at once, with slack (docs/scheduling.md)",
    )
    reserved_tasks: int = Field(
        default=200, ge=1, le=10_000, description="conservative: how many waiting tasks have a reservation"
    )
    decisions_days: int = Field(
        default=7,
        ge=0,
        le=3_650,
        description="how long the decision log is kept, for `headway explain --history`; 0: nothing is kept",
    )
    beta: float = Field(
        default=1.0,
        ge=0,
        description="aging_sjf: weight of a second of timeout; the same as `policy` with `aging_sjf:beta=…`",
    )
    gamma: float = Field(
        default=1.0,
        gt=0,
        description="aging_sjf: weight of a second of waiting; the same as `policy` with `aging_sjf:gamma=…`",
    )
    mean_timeouts: float = Field(
        default=12.0,
        ge=0,
        description="log_aging: a timeout ten times as long costs so many mean timeouts of waiting (of the last 2,000 "
        "tasks that came); the same as `policy` with `log_aging:means=…`",
    )
    cpu_tasks_on_gpu_nodes: Literal["last_resort", "always", "never"] = Field(
        default="last_resort", description="whether tasks without GPUs may use nodes with GPUs"
    )
    platform_retries: int = Field(
        default=3,
        ge=0,
        le=100,
        description="how often a task is tried again after faults of the platform (pull, start, GPU)",
    )
    loss_retries: int = Field(
        default=10,
        ge=0,
        le=100,
        description="how often a task is queued again after its machine was lost, or the engine there was away at its "
        "start, preferably on another",
    )
    platform_retry_delay_s: Seconds = Field(
        default=5.0, description="pause before the first of them; doubles each time"
    )
    start_limit_s: Seconds = Field(
        default=1_800.0, description="longest time from dispatch to the user's process, image fetch included"
    )
    stop_limit_s: Seconds = Field(
        default=120.0, description="how long past grace a stop may take before the node is looked at"
    )
    booked_start_s: Seconds = Field(
        default=60.0,
        description="what a plan allows for a start, on top of the timeout; a start that takes longer may move others",
    )
    booked_stop_s: Seconds = Field(
        default=30.0, description="what a plan allows for a stop, and more for a task with a longer grace"
    )
    limits: LimitsSection = LimitsSection()
    autoscale: AutoscaleSection = AutoscaleSection()


class ResourceManagerSection(Section):
    """Nodes and their health."""

    bind: Address = Field(default="127.0.0.1:7003", description="where it listens")
    metrics_listen: OptionalAddress = Field(default="", description=_METRICS.format(7103))
    database: str = Field(default="", description=_DATABASE)
    poll_s: Seconds = Field(default=10.0, description="how often each Worker is asked for its status")
    suspect_after_s: Seconds = Field(default=30.0, description="a silent node is SUSPECT: it gets no new work")
    down_after_s: Seconds = Field(default=90.0, description="a silent node is DOWN")
    usage_days: int = Field(
        default=366, ge=1, description="how long means of hours are kept; readings an hour, minutes a day"
    )


class WorkerSection(Section):
    """One machine that runs containers."""

    bind: Address = Field(default="127.0.0.1:7004", description="where it listens")
    metrics_listen: OptionalAddress = Field(default="", description=_METRICS.format(7104))
    address: OptionalAddress = Field(default="", description="how the other services reach it; by default `bind`")
    node_id: NodeName = Field(default="", description="the machine's name in the cluster; by default its host name")
    runtime: RuntimeName = Field(
        default="docker",
        description="what runs tasks: docker, or scripted, which starts nothing, for rehearsals, or one that an "
        "installed package adds (docs/runtimes.md)",
    )
    docker_host: str = Field(
        default="", description="the engine's socket; by default DOCKER_HOST or /var/run/docker.sock"
    )
    folder: FilePath = Field(
        default="", description="attempts and log spools, on a local disk; by default `worker` in `cluster.state_dir`"
    )
    cpus: float = Field(
        default=0.0, ge=0, le=4_096, description="CPUs it offers; 0: what the machine has. More than it has is allowed"
    )
    memory_bytes: Bytes = Field(
        default=0, description="memory it offers; 0: what the machine has, less some for the system"
    )
    simulated_gpus: int = Field(default=0, ge=0, le=1_024, description="pretend GPUs, for rehearsals")
    simulated_gpu_model: str = Field(default="Simulated", min_length=1, description="their model")
    simulated_gpu_memory_bytes: Bytes = Field(default=24 << 30, description="memory of each")
    simulated_gpu_script: FilePath = Field(
        default="",
        description="what happens to them, and when: a file in TOML, or in YAML if its name ends so (docs/gpus.md)",
    )
    local_images: bool = Field(default=False, description="whether jobs may name images that the engine already has")
    pull_images: bool = Field(
        default=True, description="whether images may come from the registry that their name says"
    )
    disk_low_bytes: Bytes = Field(
        default=2 << 30,
        description="with less free space on the disk of `folder` or of the engine's data it takes no new task; with "
        "less than half of it, the task that fills that disk is ended",
    )
    image_disk_high: float = Field(
        default=0.85,
        gt=0,
        le=1,
        description="with more than this share of the engine's disk in use, images that Headway brought are removed, "
        "those first that were not used for longest; nothing is fetched ahead above it",
    )
    image_disk_low: float = Field(default=0.70, gt=0, le=1, description="until less than this share is in use")
    network_rules: Literal["required", "wanted", "off"] = Field(
        default="required",
        description="firewall rules that keep tasks away from each other and from this machine (docs/networks.md). "
        "required: a machine where they can't be set takes no work; wanted: it takes work and says so; off: none are "
        "set",
    )
    network_private: bool = Field(
        default=False, description="whether tasks reach private addresses, such as other machines of the site"
    )
    network_allow: tuple[Reach, ...] = Field(
        default=(),
        description="what tasks reach besides, such as a licence server: `10.1.2.3:27000`, `10.4.0.0/16`. Addresses of "
        "this machine need their port",
    )
    network_job_range: JobRange = Field(
        default="10.213.0.0/16",
        description="private addresses for the networks of jobs with `network: job`; this machine must not use them",
    )
    pids_limit: int = Field(default=4_096, ge=16, description="processes and threads in one container")
    pull_limit_s: Seconds = Field(default=1_500.0, description="longest fetch of an image")
    engine_timeout_s: Seconds = Field(
        default=60.0, description="an engine call without an answer for so long counts as hung"
    )
    gpu_passing: Literal["auto", "device_request", "cdi", "device_nodes"] = Field(
        default="auto",
        description="how containers are given GPUs (docs/gpus.md). auto: by the first of these ways that it has",
    )
    gpu_outside_memory_bytes: Bytes = Field(
        default=512 << 20,
        description="GPU memory that processes outside Headway may hold before the card counts as busy",
    )
    gpu_shared: tuple[GpuName, ...] = Field(
        default=(),
        description="GPUs of this machine that several tasks may share (docs/gpus.md): UUIDs, unique beginnings of "
        "them, or `all`. They are given out in shares only (`gpu_share` in a job file), the others whole",
    )
    gpu_mps_pipe: FilePath = Field(
        default="",
        description="the folder of NVIDIA MPS's control daemon, such as `/tmp/nvidia-mps`: tasks with a share use it. "
        "By default none does, and the driver gives them turns",
    )
    gpu_socket: SocketPath = Field(
        default="",
        description="the Unix socket by which people's own processes on this machine hold GPUs (`headway gpu run`); "
        "`off`: none. By default NODE.sock in `/run/headway`, or without root in `$XDG_RUNTIME_DIR/headway`",
    )
    gpu_silence_s: Seconds = Field(
        default=120.0, description="a hold of GPUs ends when its process says nothing for so long"
    )
    sample_every_s: SecondsOrZero = Field(
        default=1.0,
        description="how often CPU, memory, disk, network and GPUs of each running task are measured; 0: never",
    )
    gpu_idle_mode: Literal["off", "dry_run", "on"] = Field(
        default="off",
        description="what becomes of a task whose GPUs are all idle (docs/gpus.md). on: two warnings, then it is ended "
        "as `gpu_idle`; dry_run: only warnings, which say what would be done; off: nothing",
    )
    gpu_idle_below: float = Field(
        default=0.05, gt=0, le=1, description="a GPU with a smaller utilisation than this share counts as idle"
    )
    gpu_idle_for_s: Seconds = Field(
        default=3_600.0,
        description="how long all GPUs of a task have to be idle without a break; warnings come after a half and three "
        "quarters of it",
    )
    gpu_free_for_s: SecondsOrZero = Field(
        default=10.0, description="a GPU that was busy from outside Headway is given out once it was free for so long"
    )
    gpu_leftover_bytes: Bytes = Field(
        default=64 << 20,
        description="GPU memory that may stay in use after a task, beyond what was in use before it, until the card "
        "counts as not clean",
    )
    gpu_fault_ends_task: bool = Field(
        default=False,
        description="whether a task is ended, and repeated, as soon as one of its GPUs fails; otherwise it goes on as "
        "long as it can",
    )
    gpu_clean_s: SecondsOrZero = Field(
        default=60.0,
        description="how long a GPU that was taken out for a fault must be clean before it comes back by itself, where "
        "the fault passes (docs/gpus.md)",
    )
    keep_ended_s: SecondsOrZero = Field(
        default=3_600.0, description="how long the folder of an ended, copied attempt stays"
    )


class AccountRetentionSection(Section):
    """What is kept of one account's jobs; what is left out is as for the others."""

    days: Days | None = None
    log_bytes: SomeBytes | None = None


class RetentionSection(Section):
    """How long ended jobs are kept, with their logs, specs, attempts and past runs (docs/retention.md)."""

    days: Days | None = Field(
        default=None,
        description="an ended job is removed so many days after its end, unless it is pinned; by default never",
    )
    log_bytes: SomeBytes | None = Field(
        default=None,
        description="how much the logs of all ended jobs may take; the jobs that ended first go first. By default "
        "whatever they take",
    )
    log_bytes_per_account: SomeBytes | None = Field(
        default=None, description="the same for the jobs of each account; by default whatever they take"
    )
    event_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        description="how many days job events are kept, for `headway events` and those who go on with a cursor",
    )
    audit_days: int = Field(
        default=365,
        ge=1,
        le=36_500,
        description="how many days the lines of the audit log are kept",
    )
    accounts: Annotated[dict[str, AccountRetentionSection], AccountRules] = Field(
        default={},
        description='what holds for single accounts instead, such as `ann = {days = 365, log_bytes = "100GiB"}`',
    )


class PeersSection(Section):
    """Where the services reach each other; by default where they listen in the same file."""

    http_server: OptionalAddress = Field(default="", description="HttpServer's `grpc_bind`")
    job_manager: OptionalAddress = Field(default="", description="JobManager")
    task_manager: OptionalAddress = Field(default="", description="TaskManager")
    resource_manager: OptionalAddress = Field(default="", description="ResourceManager")


class LogSection(Section):
    """Log lines of the services."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is written"
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, else JSON lines"
    )
    file: FilePath = Field(
        default="", description="a file instead of standard error, `{service}` in it is replaced; kept below 40 MB"
    )


class HeadwayConfig(Section):
    """The whole file."""

    cluster: ClusterSection = ClusterSection()
    httpserver: HttpServerSection = HttpServerSection()
    job_manager: JobManagerSection = JobManagerSection()
    task_manager: TaskManagerSection = TaskManagerSection()
    resource_manager: ResourceManagerSection = ResourceManagerSection()
    worker: WorkerSection = WorkerSection()
    retention: RetentionSection = RetentionSection()
    peers: PeersSection = PeersSection()
    log: LogSection = LogSection()
