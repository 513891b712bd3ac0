"""What a job file says is what runs in the container: commands, environment, users, folders, images."""

from __future__ import annotations

import json

import docker
import pytest

from tests.docker.conftest import Jobs, a_task
from tests.support import images
from tests.support.images import STATIC, Entry

pytestmark = pytest.mark.docker


def test_a_diamond_runs_through_files_in_the_home(jobs: Jobs) -> None:
    """SPEC-07: the join ran twice, or before its second branch."""
    done = jobs.run(
        a_task("mkdir -p /root/nfs/d; echo root > /root/nfs/d/root", "Root-1"),
        a_task("cat /root/nfs/d/root > /root/nfs/d/left; sleep 1", "Left-Arm", needs=["Root-1"]),
        a_task("cat /root/nfs/d/root > /root/nfs/d/right; sleep 1", "Right-Arm", needs=["Root-1"]),
        a_task("cat /root/nfs/d/left /root/nfs/d/right", "Join", needs=["Left-Arm", "Right-Arm"]),
    )
    assert done["state"] == "SUCCEEDED", done
    tasks = {task["name"]: task for task in done["tasks"]}
    assert {len(task["attempts"]) for task in done["tasks"]} == {1}
    join_began = tasks["Join"]["attempts"][0]["started_at"]
    assert join_began >= max(tasks[name]["attempts"][0]["ended_at"] for name in ("Left-Arm", "Right-Arm"))
    assert jobs.cluster.client.log(done["id"], "Join") == b"root\nroot\n"


def test_the_environment_is_what_was_typed(jobs: Jobs) -> None:
    """SPEC-10, SPEC-13: values were cut at a dollar sign, or had become numbers."""
    env = {"P": "pa$word$$x", "OCT": "0755", "E": "1e3", "V": "1.10", "D": "2024-01-02", "T": "12:30:45", "N": "null"}
    env |= {"EMPTY": "", "LINES": "one\ntwo", "Q": "'\"\\", "U": "ñ 日本 🙂"}
    wanted = "|".join(f"${{{name}}}" for name in env)
    assert jobs.prints(f'printf %s "{wanted}"', env=env).decode() == "|".join(env.values())


def test_what_every_task_is_told(jobs: Jobs) -> None:
    out = jobs.prints("env; id -u; id -un; pwd; echo ~; cat $HEADWAY_ATTEMPT_DIR/deadline", resources={"cpus": 0.25})
    lines = out.decode().splitlines()
    env = dict(line.split("=", 1) for line in lines if "=" in line)
    assert env["HEADWAY_CPUS"] == "0.25"
    assert env["HEADWAY_MEMORY_MIB"] == "64"
    assert (env["HEADWAY_GPUS"], env["NVIDIA_VISIBLE_DEVICES"]) == ("0", "void")
    assert env["HOME"] == "/root"
    assert lines[-5:-1] == ["20000", "admin", "/", "/root"]
    assert int(lines[-1]) > 1_700_000_000


def test_a_script_over_several_lines(jobs: Jobs) -> None:
    """SPEC-15."""
    script = "echo one \\\n  two \\\n  three\ncat <<EOF\n  $HEADWAY_TASK_NAME \\$x\nEOF\n"
    assert jobs.prints(script) == b"one two three\n  a $x\n"


def test_a_script_stops_at_the_first_failure(jobs: Jobs) -> None:
    """SPEC-16."""
    task = jobs.task("false\necho after\n")
    assert (task["state"], task["reason"]["exit_code"], jobs.out(task)) == ("FAILED", 1, b"")


def test_lines_share_one_shell(jobs: Jobs) -> None:
    """SPEC-22."""
    assert jobs.prints("b=pai\necho ${b}-x\n") == b"pai-x\n"


def test_names_of_people_are_no_names_of_containers(jobs: Jobs) -> None:
    """SPEC-20, SPEC-21: a name with a space could not be a container's."""
    job = jobs.begin(a_task("echo 'ñ 日本 🙂'; sleep 1"), name="my first run: étape ñ 日本 🙂")
    other = jobs.begin(a_task("echo 2"), name="my first run: étape ñ 日本 🙂")
    for one in (job, other):
        assert jobs.ended(one)["state"] == "SUCCEEDED"
    assert jobs.cluster.client.log(job, "a").decode() == "ñ 日本 🙂\n"
    assert jobs.cluster.client.job(job)["name"] == "my first run: étape ñ 日本 🙂"


def test_a_shell_that_the_image_lacks(jobs: Jobs) -> None:
    """SPEC-24."""
    assert jobs.prints('[ -n "$HOME" ] && echo ok', shell="sh") == b"ok\n"
    task = jobs.task("[[ -v HOME ]] && echo ok", shell="bash")
    assert task["reason"]["word"] == "command_not_found"
    assert "bash" in task["reason"]["sentence"]
    task = jobs.task("nonsense-command")
    assert (task["reason"]["word"], task["reason"]["exit_code"]) == ("exited", 127)
    assert b"not found" in jobs.out(task, "stderr")


def test_an_image_without_a_shell(jobs: Jobs) -> None:
    """IMG-12: a command was always wrapped in a shell."""
    assert jobs.prints(["/static", "id"], image=STATIC) == b"20000:20000\n"
    task = jobs.task("/static id", image=STATIC)
    assert task["reason"]["word"] == "command_not_found"
    assert "no shell" in task["reason"]["sentence"]
    assert len(task["attempts"]) == 1
    task = jobs.task(["/nothing"], image=STATIC)
    assert task["reason"]["word"] == "command_not_found"


def test_an_entrypoint_is_replaced_or_kept(jobs: Jobs, docker_client: docker.DockerClient) -> None:
    """IMG-13: the user's words became arguments of the image's program."""
    name = images.import_busybox(docker_client, "headway-test/entry:1", changes=['ENTRYPOINT ["/bin/echo","entry"]'])
    assert jobs.prints(["echo", "ok"], image=name) == b"ok\n"
    assert jobs.prints("echo script", image=name) == b"script\n"
    assert jobs.prints(["ok"], image=name, entrypoint="image") == b"entry ok\n"


@pytest.mark.parametrize(
    ("folder", "word"), [("/not/there", None), ("/etc/passwd", "image_bad"), ("/line\nbreak", None)]
)
def test_working_folders_of_images(
    jobs: Jobs, docker_client: docker.DockerClient, folder: str, word: str | None
) -> None:
    """IMG-15: an image's working folder that is not there stopped the start."""
    name = f"headway-test/workdir{abs(hash(folder))}:1"
    content = images.layer(images.busybox_entries())
    container = docker_client.api.import_image_from_data(content, repository=name[:-2], tag="1")
    assert "error" not in container
    config = {"Image": name, "Cmd": ["true"], "WorkingDir": "/"}
    made = docker_client.api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
    docker_client.api.commit(made, name[:-2], "1", conf={"WorkingDir": folder, "Env": ["PATH=/bin"]})
    docker_client.api.remove_container(made)
    task = jobs.task("pwd", image=name)
    if word is None:
        assert (task["state"], jobs.out(task).decode()) == ("SUCCEEDED", f"{folder}\n"), task["reason"]
    else:
        assert task["reason"]["word"] == word
        assert "working folder" in task["reason"]["sentence"]


def test_the_images_own_user(jobs: Jobs, docker_client: docker.DockerClient) -> None:
    name = images.import_busybox(docker_client, "headway-test/app:1", changes=["USER app"])
    assert jobs.prints("id -u", image=name) == b"20000\n"
    jobs.cluster.client.change_user("admin", {"may_use_image_user": True})
    try:
        assert jobs.prints("id -u; id -un; env | grep ^USER=", image=name, user="image") == b"1000\napp\nUSER=app\n"
        out = jobs.prints("id -u; touch /etc/mine /root/nfs/roots; chown 5:5 /etc/mine; echo well", user="image")
        assert out == b"0\nwell\n"
    finally:
        jobs.cluster.client.change_user("admin", {"may_use_image_user": False})


def test_a_root_task_cannot_lead_the_worker_out_of_its_box(jobs: Jobs) -> None:
    """Its box is written and read by the Worker, who is root on the machine."""
    jobs.cluster.client.change_user("admin", {"may_use_image_user": True})
    secret = jobs.cluster.folder / "secret"
    secret.write_text("secret of the machine")
    script = f"""
        cd /headway/run || exit 9
        mv /headway/run /headway/gone 2>/dev/null && exit 8
        touch /headway/mine 2>/dev/null && exit 7
        mknod /tmp/disk b 8 0 2>/dev/null && exit 6
        echo before
        rm -f stdout stderr index; ln -s {secret} stdout; ln -s {secret} stderr; ln -sf {secret} lease
        sleep 1; echo after
    """
    try:
        task = jobs.task(script, user="image")
    finally:
        jobs.cluster.client.change_user("admin", {"may_use_image_user": False})
    assert (task["reason"]["word"], task["reason"]["exit_code"]) == ("exited", 0)
    for stream in ("stdout", "stderr", "platform"):
        assert b"secret of" not in jobs.out(task, stream)
    assert secret.read_text() == "secret of the machine"


def test_an_image_that_is_nowhere(jobs: Jobs) -> None:
    """IMG-21: it looped between two waiting states."""
    task = jobs.task("true", image="no/such-image:9", within_s=20)
    assert (task["state"], task["reason"]["word"]) == ("FAILED", "image_not_found")
    assert task["reason"]["exit_code"] is None
    assert "no/such-image:9" in task["reason"]["sentence"]
    assert len(task["attempts"]) == 1
    jobs.none_is_left()


def test_the_network_can_be_off(jobs: Jobs) -> None:
    assert jobs.prints("ls /sys/class/net", network="none") == b"lo\n"
    assert b"eth0" in jobs.prints("ls /sys/class/net")


def test_without_a_network_the_tasks_own_host_name_resolves(jobs: Jobs) -> None:
    assert (
        jobs.prints(
            'ping -c 1 "$(hostname)" >/dev/null 2>&1 || grep -q "127.0.0.1.*$(hostname)" /etc/hosts && echo ok',
            network="none",
        )
        == b"ok\n"
    )


def test_files_belong_to_the_account(jobs: Jobs) -> None:
    """STO-01: they belonged to a user that did not exist outside."""
    script = (
        "umask 077; mkdir /root/nfs/closed; echo 1 > /root/nfs/closed/f; cp /bin/busybox /root/; /root/busybox true"
    )
    jobs.prints(script)
    for path in (jobs.home() / "closed", jobs.home() / "closed" / "f"):
        stat = path.stat()
        assert (stat.st_uid, stat.st_gid) == (20000, 20000)
    assert [f["name"] for f in jobs.cluster.client.files("closed")] == ["f"]
    assert jobs.prints("echo 2 >> /root/nfs/closed/f; cat /root/nfs/closed/f") == b"1\n2\n"
    jobs.cluster.client.delete_file("closed", recursive=True)
    assert not (jobs.home() / "closed").exists()


def test_containers_have_no_more_powers_than_they_need(jobs: Jobs) -> None:
    job = jobs.begin(a_task("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; echo up; sleep 30"))
    jobs.until_it_prints(job, b"up")
    name = next(n for n in jobs.containers() if job in n)
    client = jobs.engine.client()
    try:
        found = client.api.inspect_container(name)
    finally:
        client.close()
        jobs.cluster.client.act("cancel", job)
    host = found["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["Memory"] == host["MemorySwap"] == 64 << 20
    assert (host["CpuQuota"], host["CpuPeriod"]) == (50_000, 100_000)
    assert (host["PidsLimit"], host["ShmSize"], host["LogConfig"]["Type"]) == (128, 32 << 20, "none")
    assert json.dumps(found["Config"]["Env"]).count("NVIDIA_VISIBLE_DEVICES=void") == 1
    assert jobs.ended(job)["state"] == "CANCELLED"
    out = jobs.cluster.client.log(job, "a").decode()
    assert out.count("0000000000000000") == 5
    assert "NoNewPrivs:\t1" in out
    assert "Seccomp:\t2" in out


def test_a_hostile_image_sets_nothing_for_the_launcher(jobs: Jobs, docker_client: docker.DockerClient) -> None:
    name = images.import_busybox(
        docker_client,
        "headway-test/hostile2:1",
        more=[Entry("evil.so", b"\x7fELF")],
        changes=["LABEL headway.attempt=x headway.node=n1", "VOLUME /data"],
        environment={"LD_PRELOAD": "/evil.so", "NVIDIA_VISIBLE_DEVICES": "all"},
    )
    assert jobs.prints("echo $NVIDIA_VISIBLE_DEVICES", image=name, env={"NVIDIA_VISIBLE_DEVICES": "all"}) == b"void\n"
