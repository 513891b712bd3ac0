"""What may happen in the world, by chance. Each act is told in words."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .world import Machine, World

_MOST_TASKS = 4
POINTS = (
    "launcher begins", "launcher has the lock", "launcher is the first", "launcher has seen the ticket",
    "launcher prepares", "launcher has taken the ticket", "launcher has started the program",
    "launcher is about to write the end", "launcher has written the end",
    "engine begins to create", "engine has done create", "engine begins to start", "engine has done start",
    "engine begins a launcher", "engine has begun a launcher and not noted it", "engine has done remove",
    "worker is about to store", "worker has stored", "worker is about to write to a box",
    "worker has written to a box", "worker is about to report",
)  # fmt: skip


_OF_A_START = (
    "engine begins to create", "engine has done create", "engine begins a launcher",
    "engine has begun a launcher and not noted it", "launcher begins", "launcher has the lock", "launcher prepares",
    "launcher has started the program",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Act:
    """One kind of event."""

    name: str
    weight: float
    do: Callable[[World, random.Random], Awaitable[None]]


def _machine(world: World, chance: random.Random) -> Machine:
    return chance.choice(list(world.machines.values()))


async def enqueue(world: World, chance: random.Random) -> None:
    if len(world.tasks) >= _MOST_TASKS or not world.task_manager.is_up:
        return
    name = f"t{len(world.tasks)}"
    world.tell(f"a task comes: {name}")
    world.tasks.append(await world.task_manager.enqueue(name))


async def cancel(world: World, chance: random.Random) -> None:
    if world.tasks and world.task_manager.is_up:
        task = chance.choice(world.tasks)
        world.tell(f"{task.name} is cancelled")
        await world.task_manager.cancel(task)


async def cut_link(world: World, chance: random.Random) -> None:
    _cut(world, _machine(world, chance))


async def heal_link(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    world.tell(f"the link of {machine.name} is whole")
    world.network.heal(machine.name)


async def lose_answers(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    world.tell(f"answers over the link of {machine.name} get lost")
    world.network.loses_answers.add(machine.name)


async def kill_worker(world: World, chance: random.Random) -> None:
    _kill_worker(world, _machine(world, chance))


async def start_worker(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    if not machine.worker_process.alive:
        world.tell(f"the worker of {machine.name} starts")
        machine.start_worker()


async def stop_worker(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    worker = machine.worker
    if worker is None or not worker.process.alive:
        return
    world.tell(f"the worker of {machine.name} stops as planned")

    async def stop() -> None:
        await worker.plan_stop()
        machine.disk.worker_dies()
        worker.process.kill()

    worker.process.spawn(stop())


async def kill_engine(world: World, chance: random.Random) -> None:
    _kill_engine(world, _machine(world, chance))


async def start_engine(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    if machine.engine.is_up:
        machine.engine.go_on()
        return
    world.tell(f"the engine of {machine.name} starts")
    machine.engine.start()
    if machine.worker is not None and machine.worker_process.alive:
        machine.worker.runtime.engine_is(True)


async def freeze_engine(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    world.tell(f"the engine of {machine.name} stands still")
    machine.engine.freeze()


async def go_on_engine(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    world.tell(f"the engine of {machine.name} goes on")
    machine.engine.go_on()


async def stop_engine(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    if not machine.engine.is_up:
        return
    world.tell(f"the engine of {machine.name} stops as planned")

    async def stop() -> None:
        await machine.engine.stop()
        if machine.worker is not None and machine.worker_process.alive:
            machine.worker.runtime.engine_is(False)

    machine.process.spawn(stop())


async def engine_refuses(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    world.tell(f"the engine of {machine.name} will refuse the next container")
    machine.engine.refuses_next = True


async def kill_launcher(world: World, chance: random.Random) -> None:
    _kill_launcher(world, _machine(world, chance))


async def reboot(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    _reboot(world, machine)
    if chance.random() < 0.6:
        machine.engine.start()
        machine.start_worker()


async def step_wall_clock(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    seconds = chance.choice([-7200.0, -30.0, 30.0, 7200.0])
    clock = world.task_manager.clock if chance.random() < 0.3 else machine.clock
    world.tell(f"a wall clock jumps by {seconds:g} s")
    clock.step_wall(seconds)


async def kill_task_manager(world: World, chance: random.Random) -> None:
    world.tell("TaskManager is killed")
    await world.task_manager.kill()
    if chance.random() < 0.2:
        world.tell("its machine boots")
        world.task_manager.clock.reboot()


async def start_task_manager(world: World, chance: random.Random) -> None:
    if not world.task_manager.is_up:
        world.tell("TaskManager starts")
        await world.task_manager.start()


async def unfit(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    machine.is_unfit = not machine.is_unfit
    world.tell(f"{machine.name} {'takes no new work' if machine.is_unfit else 'takes work again'}")


async def no_image(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    machine.lacks_image = not machine.lacks_image
    world.tell(f"{machine.name} {'gets no image' if machine.lacks_image else 'gets images again'}")


async def partition(world: World, chance: random.Random) -> None:
    """About as long as a lease, where leases decide."""
    machine = _machine(world, chance)
    if chance.random() < 0.4:
        _freeze_engine(world, machine)
        await enqueue(world, chance)
        await world.advance(chance.choice([0.02, 0.1, 0.5, 2.0]))
    _cut(world, machine)
    await world.advance(chance.choice([5.0, 15.0, 18.0, 20.0, 22.0, 26.0, 35.0]))
    if chance.random() < 0.5:
        await go_on_engine(world, chance)
    if chance.random() < 0.5:
        world.tell(f"the link of {machine.name} is whole")
        world.network.heal(machine.name)


async def restart_engine(world: World, chance: random.Random) -> None:
    """It dies in the midst of a start, and comes back."""
    machine = _machine(world, chance)
    if chance.random() < 0.6:
        point = chance.choice(_OF_A_START)
        world.arm(point, lambda there: _kill_engine(world, there))
        await enqueue(world, chance)
        await world.advance(chance.choice([1.0, 3.0]))
        if not machine.engine.is_up and chance.random() < 0.5:
            _restart_worker(world, machine)
    else:
        _kill_engine(world, machine)
        await world.advance(chance.choice([0.1, 1.0, 3.0]))
    for one in world.machines.values():
        if not one.engine.is_up:
            world.tell(f"the engine of {one.name} starts")
            one.engine.start()
            if one.worker is not None and one.worker_process.alive:
                one.worker.runtime.engine_is(True)


async def restart_worker(world: World, chance: random.Random) -> None:
    machine = _machine(world, chance)
    if chance.random() < 0.5:
        await enqueue(world, chance)
        await world.advance(chance.choice([0.01, 0.03, 0.1, 0.3, 1.0]))
    _kill_worker(world, machine)
    await world.advance(chance.choice([0.0, 0.5, 5.0, 20.0]))
    machine.start_worker()


async def arm(world: World, chance: random.Random) -> None:
    point, spring = chance.choice(POINTS), chance.choice(_SPRINGS)
    world.arm(point, lambda machine: spring(world, machine))


def _cut(world: World, machine: Machine) -> None:
    world.tell(f"the link of {machine.name} is cut")
    world.network.cut(machine.name)


def _kill_worker(world: World, machine: Machine) -> None:
    if machine.worker_process.alive:
        world.tell(f"the worker of {machine.name} is killed")
        machine.kill_worker()


def _restart_worker(world: World, machine: Machine) -> None:
    _kill_worker(world, machine)
    world.tell(f"and starts again on {machine.name}")
    machine.start_worker()


def _kill_engine(world: World, machine: Machine) -> None:
    if machine.engine.is_up:
        world.tell(f"the engine of {machine.name} is killed")
        machine.engine.kill()
        if machine.worker is not None and machine.worker_process.alive:
            machine.worker.runtime.engine_is(False)


def _freeze_engine(world: World, machine: Machine) -> None:
    world.tell(f"the engine of {machine.name} stands still")
    machine.engine.freeze()


def _kill_launcher(world: World, machine: Machine) -> None:
    for launcher in machine.launchers[:1]:
        world.tell(f"somebody kills the launcher of {launcher.attempt} on {machine.name}")
        launcher.kill()


def _reboot(world: World, machine: Machine) -> None:
    power_cut = world.chance.random() < 0.5
    world.tell(f"{machine.name} {'loses its power' if power_cut else 'boots'}")
    machine.reboot(power_cut=power_cut)


def _cut_and_restart(world: World, machine: Machine) -> None:
    _cut(world, machine)
    _restart_worker(world, machine)


def _kill_engine_and_worker(world: World, machine: Machine) -> None:
    _kill_engine(world, machine)
    _kill_worker(world, machine)


def _step_wall(world: World, machine: Machine) -> None:
    world.tell(f"the wall clock of {machine.name} jumps back")
    machine.clock.step_wall(-3600.0)


_SPRINGS: tuple[Callable[[World, Machine], None], ...] = (
    _cut, _kill_worker, _restart_worker, _kill_engine, _freeze_engine, _kill_launcher, _reboot, _cut_and_restart,
    _kill_engine_and_worker, _step_wall,
)  # fmt: skip

ACTS = (
    Act("a task comes", 3.0, enqueue),
    Act("a cancel", 0.5, cancel),
    Act("a link is cut", 2.0, cut_link),
    Act("a link is healed", 2.0, heal_link),
    Act("answers get lost", 0.7, lose_answers),
    Act("a worker is killed", 1.0, kill_worker),
    Act("a worker starts", 3.0, start_worker),
    Act("a worker stops", 0.5, stop_worker),
    Act("an engine is killed", 1.0, kill_engine),
    Act("an engine starts", 3.0, start_engine),
    Act("an engine stands still", 0.7, freeze_engine),
    Act("an engine goes on", 1.5, go_on_engine),
    Act("an engine stops", 0.5, stop_engine),
    Act("an engine refuses", 0.4, engine_refuses),
    Act("a launcher is killed", 0.5, kill_launcher),
    Act("a machine boots", 0.6, reboot),
    Act("a wall clock jumps", 0.5, step_wall_clock),
    Act("TaskManager is killed", 0.5, kill_task_manager),
    Act("TaskManager starts", 4.0, start_task_manager),
    Act("a node is unfit", 0.4, unfit),
    Act("an image is missing", 0.3, no_image),
    Act("a trap", 4.0, arm),
    Act("a partition", 3.0, partition),
    Act("an engine dies and comes back", 2.0, restart_engine),
    Act("a worker dies and comes back", 2.0, restart_worker),
)
