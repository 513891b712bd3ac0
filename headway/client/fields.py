"""Which kinds of value the fields of answers have, by name, so that another's JSON is told from Headway's.

A name with several kinds is in several rows. tests/unit/client/test_answers.py holds them against the API.
"""

from __future__ import annotations

from typing import Final

# null stands for nothing, too.
NULLABLE: Final = {
    "number": """accepted_at asked_killed_share began_at booked_used container_started_at cpu_s cpus_used
        created_at deadline_at energy_j every_s mean_utilisation step_s discipline_set_at dispatch_s
        ended_at estimated_start_at expires_at first_promised_start_at kept_until key killed_share load1
        longest_s mean_gpu_utilisation mean_wait_s measured_at median_s memory_utilisation next_free_at
        policy_set_at power_w preparing_s progress promise_from_at promised_start_at published_at
        quarantined_since queued_at reserved_start_at revoked_at running_s scheduling_s shortest_s
        signed_in_at started_at startup_s suggested_timeout_s temperature_c timeout_s used_at
        utilisation last_ends_by_at return_at until_at""",
    "integer": """booked gpus_booked disk_free_bytes disk_read_bytes disk_total_bytes disk_written_bytes gpu
        network_received_bytes network_sent_bytes peak_memory_used_bytes exit_code files free
        gpu_memory_bytes length memory_total_bytes memory_used_bytes next_before peak_memory_bytes
        position quota_bytes signal size_bytes space_limit_bytes space_used_bytes unusable
        free_share_bytes gpu_index gpu_share_bytes broken_row""",
    "text": """checksum code discipline_set_by from_digest gpu_memory id image_digest image_source job_name
        link_target next_cursor node_id output_path owner password path policy_set_by problem
        reason_task refused shell state suggested_timeout task to_digest user working_dir gpu_share
        provider""",
    "object": """booked booking count efficiency gpus_booked last_good_run peak place preview problem reason
        result spec use drain sharing session""",
}
FIRM: Final = {
    "flag": """admin ahead already_known at_once blocks_work busy_outside checked current delivered dry_run
        enabled ended estimate_rough extension_pending final forced gpus_simulated has_bash has_shell
        held may_change may_use_high_priority may_use_image_user more overdue pinned public ready sick
        simulated started_itself return_when_back shared file_only whole""",
    "text": """reason admission architecture basis by ca certificate closed code configured_discipline
        configured_policy created_by cuda_version cursor description detail digest discipline
        driver_version encoded engine_version entrypoint failure fault full_name gpu_memory gpu_passing
        grace health health_sentence home id image image_id invitation job_id job_name key kind
        log_limit log_limit_action memory method mode model name network node_id note on origin os
        output_path owner parent_uuid password path policy priority promises proof pushed_by
        python_version registry require_cuda resource revoked_by role runtime sentence serial service
        settings shell shm slug source state tag target task timeout token unit user username used_as
        uuid version word working_dir changed growth_failure address agent head issuer linked_by outcome
        passwords problem request_id secret subject way who""",
    "integer": """running after_needs_count attempt attempts attempts_lost dropped_bytes end ended files
        generation gid gpus id incarnation index jobs kept_days line live_attempts log_bytes lost
        max_bytes max_files samples memory_bytes number of_runs offset pid pinned place position
        promised queued_count retries rows_in_all running_matching shm_bytes size size_bytes started
        started_in_all stderr_bytes stdout_bytes stored succeeded task_count tasks tasks_changed
        tasks_offset timed_out total total_matching total_running total_waiting uid unmeasured
        used_bytes version attempts_at_start attempts_left total_stranded share_bytes most first last
        rows_held unlinked""",
    "number": """asked at booked_gpu_hours changed_at cpu_hours cpus created_at deleted_at ended_before
        ends_by_at expires_at from_at made_at valid_from_at gpu_hours idle_s keep_s measured_s
        memory_gib_hours modified_at placed_at pushed_at registered_at seconds seen_at share since_at
        slack_s submitted_at timeout_s to_at updated_at used used_at used_gpu_hours failed_gpu_hours
        idle_gpu_hours measured_gpu_hours wasted_gpu_hours span_s ends_in_s every_s expires_in_s
        linked_at""",
    "object": """attempt conditions defaults env frameworks gpus job labels metadata most_ulimits needs phases
        resources scheduling shared_with suggested task tasks_by_state terms total ulimits user problems""",
    "words": """after_needs choices cordoned command contradictions datasets entrypoint env gpu_models gpu_uuids
        groups images linked_uuids live_jobs members missing notices order sentences tasks users
        waits_for warnings""",
    "numbers": "at max mean offsets",
    "rows": """attempts certificates columns conditions datasets decisions edges entries events extensions gpus
        groups history images invitations items jobs layers missing nodes points processes registries
        rows running sessions snapshots started starts tags tasks timeouts tokens uploads used_by users
        versions waits stranded others shares links""",
}
# May be text, a list or an object.
ANY: Final = "command gpu_model needs secrets"


def _by_name() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for table in (FIRM, NULLABLE):
        for kind, names in table.items():
            for name in names.split():
                found.setdefault(name, set()).add(kind)
    free = set(ANY.split())
    return {name: frozenset(kinds) for name, kinds in found.items() if name not in free}


KINDS: Final = _by_name()
_NONE: Final = frozenset(" ".join(NULLABLE.values()).split())
# Without these nothing can be shown or done.
NEEDED: Final = frozenset(
    [
        "id",
        "name",
        "state",
        "token",
        "user",
        "job",
        "jobs",
        "task",
        "tasks",
        "entries",
        "nodes",
        "registries",
        "decisions",
        "ended",
        "password",
    ]
)
_OF_KIND: Final = {"rows": (), "words": (), "numbers": (), "object": {}, "flag": False, "text": "", "integer": 0}


def default_of(name: str) -> object:
    """What a field stands for that another version does not send; a moment or a length of time that nobody told is
    None."""
    if name in _NONE:
        return None
    kinds = KINDS.get(name, frozenset())
    if name == "at":
        return None
    for kind, value in _OF_KIND.items():
        if kind in kinds:
            return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
    return None if name.endswith(("_at", "_s", "seconds", "at")) or not kinds else 0.0
