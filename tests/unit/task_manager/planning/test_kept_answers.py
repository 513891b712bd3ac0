"""What a node's timeline remembers stays right while things are booked and given back."""

from __future__ import annotations

import random

from task_manager.planning.node_profile import NodeProfile, ProfileDemand
from task_manager.planning.placement import full_capacity
from tests.unit.task_manager.rig import GiB, a_node, gpus_of


def test_answers_are_those_of_a_timeline_that_remembers_nothing() -> None:
    chance = random.Random(1)
    node = a_node("n1", gpus=gpus_of("n1", 4))
    demands = [ProfileDemand(gpus, 100, GiB, gpus, (0,)) for gpus in (1, 2, 3, 4)]
    for _ in range(40):
        profile, booked = NodeProfile(full_capacity(node), 0.0), []
        for _ in range(30):
            if booked and chance.random() < 0.4:
                start, end, gpus = booked.pop(chance.randrange(len(booked)))
                profile.take(-100, -GiB, [(0, -gpus)], start, end)
            else:
                start = float(chance.choice([0, 0, chance.randint(1, 50)]))
                end, gpus = start + chance.randint(1, 20), chance.randint(1, 4)
                if profile.has_free(100, GiB, [(0, gpus)], start, end):
                    profile.take(100, GiB, [(0, gpus)], start, end)
                    booked.append((start, end, gpus))
            plain = NodeProfile(full_capacity(node), 0.0)
            for start, end, gpus in booked:
                plain.take(100, GiB, [(0, gpus)], start, end)
            for demand in demands:
                assert profile.first_free(demand.gpus) == plain.first_free(demand.gpus)
                assert profile.free_until(demand) == plain.free_until(demand)
                assert profile.earliest_start(demand, 5.0, 0.0) == plain.earliest_start(demand, 5.0, 0.0)
