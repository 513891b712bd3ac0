"""What a person who waits for GPUs on a machine reads."""

from __future__ import annotations

from headway.client.gpu_holding import _line


def test_cards_that_do_not_work_or_are_used_from_outside_are_told_beside_the_queue() -> None:
    """G3: waiting for sick cards looked like waiting for busy ones."""
    waits = [
        {"word": "waiting_for_gpu", "sentence": "vm has no free GPU."},
        {"word": "behind_higher_priority", "sentence": "2 waiting tasks are ahead of it."},
        {"word": "gpu_busy_outside", "sentence": "GPU 2 of vm is in use by ann's python."},
        {"word": "gpu_unavailable", "sentence": "1 GPU of vm does not work."},
    ]
    told = "vm has no free GPU. GPU 2 of vm is in use by ann's python. 1 GPU of vm does not work."
    assert _line({"waits": waits}, "j1") == (told, f"Waiting for GPUs (j1): {told} Ctrl-C withdraws it.")
    assert _line({"waits": []}, "j1") == ("", "")
