"""headway.toml: whole or not at all, each problem one sentence with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from headway.cli.config_cmd import config as config_command
from headway.config import HeadwayConfig, LoadedConfig, load
from headway.config.loading import flattened
from headway.config.reference import with_reference
from headway.errors import ConfigInvalid

TOKEN = "a-token-of-enough-characters"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "headway.toml"
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def loaded(write: Write) -> Callable[..., LoadedConfig]:
    """Loads [cluster] with a token, and `text`."""

    def loaded(text: str = "", env: dict[str, str] | None = None, **options: Any) -> LoadedConfig:
        return load(write(f'cluster.token = "{TOKEN}"\n{text}'), env or {}, **options)

    return loaded


Load = Callable[..., LoadedConfig]


def refusal(load: Load, text: str = "", env: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        load(text, env)
    return str(caught.value).splitlines()


def test_defaults_are_whole(loaded: Load) -> None:
    config = loaded().config
    assert (config.cluster.lease_s, config.cluster.heartbeat_s) == (120.0, 10.0)
    assert config.job_manager.database == "/var/lib/headway/job_manager.db"
    assert config.worker.folder == "/var/lib/headway/worker"
    assert config.worker.node_id
    assert config.peers.task_manager == config.task_manager.bind == "127.0.0.1:7002"
    assert config.task_manager.limits.max_timeout == {0: 604_800.0}
    assert all(value != "" or key.rpartition(".")[2] in OPTIONAL for key, value in flattened(config))


OPTIONAL = {
    "token_file",
    "trust_dir",
    "public_url",
    "tls_cert",
    "tls_key",
    "first_admin_file",
    "docker_host",
    "gpu_socket",
    "gpu_mps_pipe",
    "simulated_gpu_script",
    "file",
    "metrics_listen",
    "issuer",
    "client_id",
    "client_secret_file",
    "webhook",
    "webhook_secret_file",
}


def test_environment_wins_over_file_and_options_over_both(loaded: Load) -> None:
    text = "httpserver.port = 1"
    env = {"HEADWAY_HTTPSERVER__PORT": "2", "HEADWAY_TASK_MANAGER__LIMITS__MAX_TIMEOUT": '{0 = "1d", 8 = "7d"}'}
    result = loaded(text, env)
    assert result.config.httpserver.port == 2
    assert result.config.task_manager.limits.max_timeout == {0: 86_400.0, 8: 604_800.0}
    assert result.sources["httpserver.port"] == "HEADWAY_HTTPSERVER__PORT"
    assert loaded(text, env, overrides={"httpserver.port": 3}).config.httpserver.port == 3


def test_every_value_says_where_it_came_from(write: Write) -> None:
    path = write(
        f'# a comment\n[cluster]\ntoken = "{TOKEN}"\n\n  lease_s = "5m"\n\n[ task_manager ]\n'
        'limits.max_timeout = "1h"\n'
    )
    sources = load(path, {"HEADWAY_LOG__LEVEL": "debug", "HEADWAY_URL": "http://x", "HEADWAY_TOKEN": "t"}).sources
    assert sources["cluster.lease_s"] == f"{path}:5"
    assert sources["task_manager.limits.max_timeout"] == f"{path}:8"
    assert sources["log.level"] == "HEADWAY_LOG__LEVEL"
    assert sources["cluster.heartbeat_s"] == "default"
    assert sources["httpserver.database"] == "from cluster.state_dir"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("cluster.leese_s = 3", "[cluster] leese_s is not known; did you mean lease_s?"),
        ('worker.policy = "x"', "[worker] policy is not known here; did you mean task_manager.policy?"),
        ("[htpserver]\nport = 3", "[htpserver] port is in an unknown section; did you mean [httpserver]?"),
        ("port = 3", "port is no section; did you mean"),
        ('worker.runtime = "dockr"', "[worker] runtime must be one of 'docker' or 'scripted', and not 'dockr' (did you mean 'docker'?)."),  # noqa: E501
        ("worker.cpus = -1", "[worker] cpus must be at least 0, and not -1."),
        ('httpserver.port = "http"', "[httpserver] port must be a whole number, and not 'http'."),
        ("httpserver.port = 70000", "[httpserver] port must be at most 65535, and not 70000."),
        ("cluster.lease_s = 0", "[cluster] lease_s must be above 0."),
        ('cluster.lease_s = "5 parsecs"', "[cluster] lease_s can't be taken:"),
        ('task_manager.bind = "7002"', "[task_manager] bind must be HOST:PORT, such as 127.0.0.1:7001, and not"),
        *(
            (f'httpserver.behind_proxy = ["{wide}"]', "must name the proxies themselves")
            for wide in ("0.0.0.0/0", "::/0", "0.0.0.0/1", "10.0.0.0/8", "2001:db8::/32")
        ),
        ('httpserver.behind_proxy = ["nginx"]', "[httpserver] behind_proxy must be IP addresses or networks"),
        ('worker.node_id = "../x"', "[worker] node_id must be small letters"),
        ("task_manager.limits.max_timeout = 5", "[task_manager.limits] max_timeout must be a text with a unit"),
        ('task_manager.limits.max_timeout = {4 = "1d"}', "must say what holds for a cluster without GPUs"),
        ('worker.disk_low_bytes = "lots"', "[worker] disk_low_bytes can't be taken:"),
        ('cluster.name = "a b"', "[cluster] name must match"),
        ("cluster.simulated = 7", "[cluster] simulated must be true or false, and not 7."),
        ("task_manager.limits.running_gpus_per_user = true", "running_gpus_per_user must be a number, and not true."),
        ("task_manager.limits.min_timeout = true", "[task_manager.limits] min_timeout must be a number, and not true."),
        ("task_manager.limits.max_timeout = true", "max_timeout must be a text with a unit"),
        ("task_manager.beta = false", "[task_manager] beta must be a number, and not false."),
        ("worker.disk_low_bytes = true", "[worker] disk_low_bytes must be a number, and not true."),
        ("cluster.lease_grace_s = false", "[cluster] lease_grace_s must be a number, and not false."),
        ("task_manager.limits.queued_tasks_per_user = 1e23", "queued_tasks_per_user must be at most"),
        ("task_manager.limits.queued_tasks_per_user = 100000001", "must be at most 100000000, and not 100000001."),
        ("httpserver.code_max_bytes = 99999999999999999999", "[httpserver] code_max_bytes must be at most 92233"),
        ("task_manager.limits.queued_tasks_per_user = inf", "per_user must be a finite number, and not inf"),
        ("task_manager.limits.min_timeout = inf", "min_timeout must be a finite number, and not inf."),
        ("task_manager.limits.min_timeout = nan", "min_timeout must be a finite number, and not nan."),
        ('task_manager.limits.min_timeout = "inf"', "min_timeout must be a finite number, and not 'inf'."),
        ("task_manager.gamma = inf", "[task_manager] gamma must be a finite number, and not inf."),
        ("httpserver.session_lifetime_s = 1e300", "[httpserver] session_lifetime_s must be at most 36500d."),
        ("task_manager.limits.max_timeout = {0='2h', 00='1h'}", "must name each number of GPUs once; 00 is 0 again."),
        ("cluster = 5", "cluster"),
    ],
)  # fmt: skip
def test_each_mistake_is_one_sentence(write: Write, text: str, want: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load(write(text), {})
    lines = str(caught.value).splitlines()
    assert any(want in line for line in lines), lines
    assert all("headway.toml" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        # Both were taken without a word.
        (
            'policy = "aging_sjf:beta=3"\nbeta = 2',
            ["4: [task_manager] beta is 2, but policy is 'aging_sjf:beta=3': say"],
        ),
        (
            'policy = "aging_sjf:beta=3,gamma=2"\nbeta = 3\ngamma = 1',
            ["5: [task_manager] gamma is 1, but policy is 'aging_sjf:beta=3,gamma=2': say"],
        ),
        (
            'policy = "fifo"\nbeta = 2\ngamma = 1',
            [
                "4: [task_manager] beta is a weight of aging_sjf, but policy is 'fifo', which would not heed it",
                "5: [task_manager] gamma is a weight of aging_sjf, but policy is 'fifo', which would not heed it",
            ],
        ),
        ('policy = "aging_sjf"\nbeta = 2', []),
        ('policy = " aging_sjf:gamma = 2 "\nbeta = 2\ngamma = 2.0', []),
        ("beta = 2", []),
        ('policy = "fifo"', []),
    ],
)
def test_a_weight_is_said_once_and_beside_its_policy_only(loaded: Load, text: str, want: list[str]) -> None:
    text = f"[task_manager]\n{text}"
    if not want:
        loaded(text)
        return
    lines = refusal(loaded, text)
    assert len(lines) == len(want)
    assert all(words in line for line, words in zip(lines, want, strict=True)), lines
    # From the environment too, under its own name.
    assert (
        "HEADWAY_TASK_MANAGER__BETA: "
        in refusal(loaded, '[task_manager]\npolicy = "fifo"', {"HEADWAY_TASK_MANAGER__BETA": "2"})[0]
    )


def test_all_mistakes_come_at_once_and_name_their_variable(loaded: Load) -> None:
    lines = refusal(loaded, "worker.cpus = -1\nworker.x = 1", {"HEADWAY_WORKER__RUNTIM": "docker"})
    assert len(lines) == 3
    assert any(line.startswith("HEADWAY_WORKER__RUNTIM: [worker] runtim") for line in lines)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("cluster.heartbeat_s = 40", "must be more than three times heartbeat_s"),
        ("cluster.lease_stop_s = 14", "must be at least lease_grace_s + 5 = 15"),
        ("worker.sample_every_s = 0.01", "is 0.01; it must be at least 0.1, or 0: never"),
        ('worker.gpu_socket = "here/n1.sock"', "gpu_socket must be an absolute path, or off, and not 'here/n1.sock'"),
        ('worker.gpu_socket = "OFF"', "gpu_socket must be an absolute path, or off, and not 'OFF'"),
        (f'worker.gpu_socket = "/{"x" * 107}"', "gpu_socket must be at most 107 bytes long"),
        ('worker.gpu_idle_mode = "on"\nworker.sample_every_s = 0', "is on, which needs samples"),
        ('worker.gpu_idle_mode = "dry_run"\nworker.gpu_idle_for_s = 7', "must be at least eight times sample_every_s"),
        ("cluster.lease_grace_s = 60", "must be at least lease_grace_s + 5 = 65"),
        ("cluster.lease_stop_s = 100", "lease_s - lease_stop_s must be more than two heartbeats"),
        ('httpserver.bind = "0.0.0.0"', "set tls_cert and tls_key, or name the proxy"),
        ('httpserver.tls_cert = "/c"', "set both or neither"),
        (
            'cluster.insecure_network = true\nworker.bind = "0.0.0.0:7004"',
            "must say how the others reach this machine",
        ),
        *(
            (f'{key} = "10.0.0.1:7009"', "is 10.0.0.1:7009, which other machines can reach: gRPC is plain text")
            for key in (
                "job_manager.bind",
                "task_manager.bind",
                "resource_manager.bind",
                "worker.bind",
                "httpserver.grpc_bind",
            )
        ),
        ('job_manager.bind = "[::]:7001"', "set [cluster] insecure_network = true"),
        (
            'worker.metrics_listen = "0.0.0.0:7104"',
            "[worker] metrics_listen is 0.0.0.0:7104, which other machines can reach: it is plain text and asks nobody",
        ),
        ('httpserver.metrics_listen = "10.0.0.1:7100"', "[httpserver] metrics_listen is 10.0.0.1:7100, which other"),
        (
            'job_manager.bind = "head:7001"\ntask_manager.bind = "0.0.0.0:7002"',
            "[job_manager] bind is head:7001, which other machines can reach, like task_manager.bind: gRPC",
        ),
        ("resource_manager.suspect_after_s = 5", "must be at least two polls"),
        ("resource_manager.down_after_s = 30", "must be above suspect_after_s"),
        ('worker.pull_limit_s = "1h"', "must be below task_manager.start_limit_s"),
        ('cluster.mount = "/srv"\ncluster.state_dir = "/srv/state"', "must not lie on the shared mount"),
        ("cluster.account_uid_max = 5000", "must not be below account_uid_min"),
        (
            'task_manager.limits.min_timeout = "8d"',
            "min_timeout is 8d; it must not be above max_timeout (7d), or nobody could submit a task then",
        ),
        (
            'task_manager.limits.min_timeout = "2m"\ntask_manager.limits.max_timeout = {0 = "1m", 8 = "7d"}',
            "min_timeout is 2m; it must not be above max_timeout (1m), or",
        ),
        (
            'task_manager.limits.min_timeout = "2m"\n[task_manager.limits.short_reserve]\ngpus = 1\nabove = "1m"',
            "above is 1m; it must not be below min_timeout (2m), or GPUs would be kept for tasks that nobody can",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(loaded: Load, text: str, want: str) -> None:
    (line,) = refusal(loaded, text)
    assert want in line
    assert "headway.toml:" in line


@pytest.mark.parametrize(
    "text",
    [
        'httpserver.bind = "0.0.0.0"\nhttpserver.behind_proxy = ["10.0.0.0/24"]',
        'httpserver.bind = "::"\nhttpserver.tls_cert = "/c"\nhttpserver.tls_key = "/k"',
        'httpserver.bind = "127.0.0.2"',
        'httpserver.bind = "localhost"',
        'cluster.insecure_network = true\nworker.bind = "0.0.0.0:7004"\nworker.address = "gpu-1:7004"',
        'cluster.insecure_network = true\njob_manager.bind = "10.0.0.1:7001"\ntask_manager.bind = "[::]:7002"',
        'task_manager.bind = "[::1]:7002"',
        'cluster.insecure_network = true\njob_manager.metrics_listen = "0.0.0.0:7101"',
        'job_manager.metrics_listen = "[::1]:7101"',
        'task_manager.limits.min_timeout = "1m"\ntask_manager.limits.max_timeout = {0 = "1m", 8 = "7d"}',
        'task_manager.limits.min_timeout = "2m"\ntask_manager.limits.short_reserve.above = "1m"',  # there is none
    ],
)
def test_what_goes_together_is_taken(loaded: Load, text: str) -> None:
    loaded(text)


def test_there_is_always_a_token(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="token_file is not set"):
        load(write(""), {})
    with pytest.raises(ConfigInvalid, match="token_file is too short"):
        load(write('cluster.token = "short"'), {})
    path = write('cluster.token_file = "token"')
    with pytest.raises(ConfigInvalid, match="token can't be read: No such file"):
        load(path, {})
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    result = load(path, {})
    assert result.config.cluster.token == TOKEN
    assert result.sources["cluster.token"] == "from cluster.token_file"


def test_with_certificates_no_token_is_needed_and_any_address_is_fine(write: Write) -> None:
    certificates = '[cluster]\ntrust_dir = "/etc/headway/trust"\n'
    doors = '[task_manager]\nbind = "10.0.0.1:7002"\n[worker]\nbind = "10.0.0.2:7004"\n'
    assert load(write(certificates + doors), {}).config.task_manager.bind == "10.0.0.1:7002"
    with pytest.raises(ConfigInvalid, match=r"metrics_listen is 10\.0\.0\.1:7102, which other machines can reach"):
        load(write(certificates + '[task_manager]\nmetrics_listen = "10.0.0.1:7102"\n'), {})
    relative = load(write('[cluster]\ntrust_dir = "trust"\n'), {}).config.cluster.trust_dir
    assert relative.endswith("/trust")
    assert relative.startswith("/")


def test_the_token_never_shows(loaded: Load) -> None:
    assert TOKEN not in repr(loaded().config)
    for line in refusal(loaded, 'cluster.name = ""'):
        assert TOKEN not in line


def test_relative_paths_count_from_the_file(loaded: Load, tmp_path: Path) -> None:
    config = loaded('cluster.state_dir = "state"\ncluster.mount = "../mount"').config
    assert config.cluster.state_dir == str(tmp_path / "state")
    assert config.cluster.mount == str(tmp_path.parent / "mount")


@pytest.mark.parametrize(("text", "want"), [("a = = 3", "is not valid TOML"), ("[cluster", "is not valid TOML")])
def test_broken_files_are_one_sentence(write: Write, text: str, want: str) -> None:
    with pytest.raises(ConfigInvalid, match=want):
        load(write(text), {})


def test_a_missing_file_and_other_encodings(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="can't be read: No such file"):
        load(tmp_path / "absent.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"# \xe4\n")
    with pytest.raises(ConfigInvalid, match="is not UTF-8"):
        load(tmp_path / "latin.toml", {})
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfcluster.token = '" + TOKEN.encode() + b"'\n")
    load(tmp_path / "bom.toml", {})


def test_the_example_is_valid_and_the_reference_is_fresh(repository: Path, tmp_path: Path) -> None:
    example = (repository / "deploy" / "headway.example.toml").read_text("utf-8")
    (tmp_path / "token").write_text(TOKEN)
    example = example.replace('"/etc/headway/token"', f'"{tmp_path / "token"}"')
    path = tmp_path / "headway.toml"
    path.write_text(example, "utf-8")
    assert load(path, {}).config.task_manager.limits.max_timeout == {0: 86_400.0, 8: 604_800.0}
    page = (repository / "docs" / "configuration.md").read_text("utf-8")
    assert page == with_reference(page), "run `python -m headway.config.reference`"


def test_config_show_tells_values_origins_and_no_secret(write: Write) -> None:
    path = write(f'[cluster]\ntoken = "{TOKEN}"\n[job_manager]\ndatabase = "postgresql://u:geheim@h/d"\n')
    result = CliRunner().invoke(config_command, ["show", "--config", str(path)], env={"HEADWAY_WORKER__CPUS": "8"})
    assert result.exit_code == 0, result.output
    assert TOKEN not in result.output
    assert "geheim" not in result.output
    line = next(line for line in result.output.splitlines() if line.startswith("worker.cpus"))
    assert line.split() == ["worker.cpus", "8", "HEADWAY_WORKER__CPUS"]
    assert "An outage of the scheduler of less than 1m20s ends no task" in " ".join(result.output.split())
    as_json = CliRunner().invoke(config_command, ["show", "--config", str(path), "cluster", "-o", "json"])
    rows = json.loads(as_json.output)
    assert rows["cluster.token"] == {"value": "[hidden]", "source": f"{path}:2"}
    assert rows["cluster.lease_s"] == {"value": 120.0, "source": "default"}
    assert all(key.startswith("cluster.") for key in rows)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("days = 0", "[retention] days must be 1 to 36500 days, and not 0; leave it out to keep jobs for ever."),
        ("days = -1", "[retention] days must be 1 to 36500 days, and not -1; leave it out to keep jobs for ever."),
        ("days = true", "[retention] days must be a whole number of days, and not True."),
        ("log_bytes = 0", "[retention] log_bytes must be above 0, and not 0; leave it out to keep logs"),
        ("days = 6", "[retention] days is 6; it must not be shorter than the longest timeout that a task may ask for"),
        ("accounts = {ann = {days = 0}}", "[retention.accounts.ann] days must be 1 to 36500 days, and not 0; leave it"),
        ("accounts = {ann = {day = 365}}", "[retention.accounts.ann] day is not known."),
        ("accounts = {ann = 365}", "[retention.accounts] ann must be a table, and not 365."),
        (
            "accounts = {Ann = {days = 365}}",
            "[retention] accounts must be by names of accounts, and 'Ann' can be none: they are lower-case letters, "
            "digits, _ and -, up to 32, starting with a letter or _; did you mean 'ann'?",
        ),
        ('accounts = {"a b" = {days = 4}}', "[retention] accounts must be by names of accounts, and 'a b' can be none"),
        ("accounts = {me = {days = 400}}", "[retention] accounts must be by names of accounts, and 'me' can be none"),
        ("accounts = {ann = {days = 3}}", "[retention.accounts.ann] days is 3; it must not be shorter than"),
    ],
)
def test_retention_that_would_surprise_is_refused(loaded: Load, text: str, want: str) -> None:
    (sentence,) = refusal(loaded, f"[retention]\n{text}")
    assert want in sentence


def test_retention_of_accounts_is_a_table(loaded: Load) -> None:
    text = (
        '[retention]\ndays = 90\n[retention.accounts]\nann = {log_bytes = "1GiB"}\n[retention.accounts.bob]\ndays = 400'
    )
    retention = loaded(text).config.retention
    assert (retention.accounts["ann"].log_bytes, retention.accounts["ann"].days) == (1 << 30, None)
    assert retention.accounts["bob"].days == 400
    assert loaded().config.retention.days is None, "off by default"


def test_the_whole_file_is_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        HeadwayConfig().log.level = "debug"  # type: ignore[misc]


def test_the_prometheus_that_we_ship_looks_where_the_examples_put_the_numbers() -> None:
    text = (Path(__file__).parents[3] / "deploy" / "monitoring" / "prometheus.yml").read_text()
    (job,) = yaml.safe_load(text)["scrape_configs"]
    looked_at = {target["labels"]["service"]: target["targets"] for target in job["static_configs"]}
    assert looked_at.pop("httpserver") == [f"127.0.0.1:{HeadwayConfig().httpserver.port}"]
    for service, targets in looked_at.items():
        section = type(getattr(HeadwayConfig(), service))
        assert f"such as {targets[0]}," in (section.model_fields["metrics_listen"].description or "")
