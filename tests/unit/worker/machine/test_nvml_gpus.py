"""What is found, and what is taken out, through NVIDIA's own bindings and a stand-in for its library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import GIB, Gpu, PretendGpus, Slice
from tests.support.nvml.reader import Reader

pytestmark = pytest.mark.slow  # each reader is a process

ONE, TWO = "GPU-1", "GPU-2"
Readers = Callable[..., Reader]


@pytest.fixture
def readers(pretend_gpus: PretendGpus, tmp_path: Path) -> Iterator[Readers]:
    """Makes readers that take up what earlier ones left."""
    made: list[Reader] = []

    def make(**more: Any) -> Reader:
        made.append(Reader(pretend_gpus.environment(), tmp_path, **more))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


def _kernel_file(folder: Path, bus: str, model: str, uuid: str = "GPU-????????-????-????-????-????????????") -> None:
    (folder / bus).mkdir(parents=True)
    text = f"Model: \t\t {model}\nIRQ:   \t\t 16\nGPU UUID: \t {uuid}\nBus Location: \t {bus}\nDevice Minor: \t 1\n"
    (folder / bus / "information").write_text(text)


# -- what is there -----------------------------------------------------------------------------------------


def test_links_are_told_by_uuid(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, linked=[TWO]), Gpu(TWO, linked=[ONE]), Gpu("GPU-3")])
    found = readers().gpus()
    assert [found[uuid]["linked_uuids"] for uuid in (ONE, TWO, "GPU-3")] == [[TWO], [ONE], []]


def test_an_old_driver_tells_less_and_that_is_no_fault(pretend_gpus: PretendGpus, readers: Readers) -> None:
    lacks = [
        "nvmlDeviceGetMigMode", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceRegisterEvents",
        "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo_v2",
    ]  # fmt: skip
    pretend_gpus.set([Gpu(ONE, linked=[ONE], ecc=(0, 5), remapped=(0, 0, 1, 0))], missing=lacks)
    reader = readers()
    assert reader.well() == [ONE]
    assert reader.gpus()[ONE]["power_w"] is None


def test_slices_are_gpus_of_their_own_model_and_their_card_is_none(pretend_gpus: PretendGpus, readers: Readers) -> None:
    small = Slice("MIG-1")
    old = Slice("MIG-2", name="NVIDIA A100-SXM4-40GB", memory_bytes=9856 << 20, slices=2)
    pretend_gpus.set([Gpu(ONE, slices=[small, old]), Gpu(TWO, mig=False)])
    found = readers().gpus()
    assert list(found) == ["MIG-1", "MIG-2", TWO]
    assert [gpu["model"] for gpu in found.values()] == [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB MIG 2g.10gb", "NVIDIA A100-SXM4-40GB",
    ]  # fmt: skip
    assert (found["MIG-1"]["parent_uuid"], found["MIG-1"]["memory_bytes"]) == (ONE, 5 * GIB)
    assert not any(gpu["sick"] for gpu in found.values())


def test_a_card_is_given_out_whole_or_in_slices_never_both(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1"), Slice("MIG-2")])])
    reader = readers()
    assert reader.well(["MIG-1"]) == ["MIG-1", "MIG-2"]
    assert reader.well([ONE]) == [], "a task that has the whole card keeps its slices back"
    pretend_gpus.set([Gpu(ONE, mig=False)])
    assert reader.well(["MIG-1"]) == [], "a task that has a slice keeps the whole card back"
    assert "slice" in reader.gpus(["MIG-1"])[ONE]["note"]
    assert readers().well(["MIG-1"]) == [ONE], "nobody knows any more that it was a slice of this card"
    assert reader.well() == [ONE]


def test_mig_without_slices_says_what_to_do(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, mig=True)])
    reader = readers()
    (card,) = reader.gpus().values()
    assert card["sick"]
    assert "nvidia-smi mig" in card["note"]
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1")])])
    assert reader.well() == ["MIG-1"]
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-3")])])
    assert list(reader.gpus()) == ["MIG-3"], "an admin makes other slices"


def test_a_fault_of_a_card_takes_out_all_its_slices(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1"), Slice("MIG-2")]), Gpu(TWO)])
    reader = readers(clean_s=60.0)
    reader.read()
    pretend_gpus.tell(ONE, 79)
    pretend_gpus.change(ONE, fails={"*": 15})
    found = reader.gpus()
    assert [(uuid, gpu["fault"]) for uuid, gpu in found.items()] == [
        ("MIG-1", "off_the_bus"), ("MIG-2", "off_the_bus"), (TWO, ""),
    ]  # fmt: skip
    pretend_gpus.change(ONE, fails={})
    assert reader.well() == [TWO]
    assert reader.give_back("MIG-2")["returned"], "a slice stands for its card"
    assert reader.well() == ["MIG-1", "MIG-2", TWO]


# -- cards that can't be read ------------------------------------------------------------------------------


def test_a_card_that_cannot_be_read_at_the_start_is_shown_all_the_same(
    pretend_gpus: PretendGpus, readers: Readers
) -> None:
    """G2: it vanished, jobs for all cards were refused, and a line was logged at each reading."""
    pretend_gpus.set([Gpu(ONE), Gpu(TWO, fails={"*": 15})])
    reader = readers()
    for _ in range(3):
        well, lost = reader.read()["gpus"]
    assert (well["sick"], lost["sick"], lost["fault"]) == (False, True, "off_the_bus")
    assert (lost["model"], lost["memory_bytes"], lost["index"]) == (well["model"], well["memory_bytes"], 1)
    assert "GPU is lost" in lost["note"]
    assert reader.close().count("gpu.unreadable") == 1


def test_what_was_known_of_it_or_the_kernel_tells_counts_more_than_a_guess(
    pretend_gpus: PretendGpus, readers: Readers, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel"
    _kernel_file(kernel, "0000:02:00.0", "NVIDIA H100 PCIe")
    pretend_gpus.set([Gpu(ONE), Gpu(TWO, fails={"*": 15})])
    assert readers(kernel=kernel).read()["gpus"][1]["model"] == "NVIDIA H100 PCIe"
    pretend_gpus.set([Gpu(ONE), Gpu(TWO, name="NVIDIA L40S", memory_bytes=48 * GIB)])
    readers().read()
    pretend_gpus.change(TWO, fails={"*": 15})
    later = readers(kernel=kernel).gpus()[TWO]
    assert (later["model"], later["memory_bytes"], later["fault"]) == ("NVIDIA L40S", 48 * GIB, "off_the_bus")


def test_a_card_that_the_driver_could_not_start_is_shown(
    pretend_gpus: PretendGpus, readers: Readers, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel"
    _kernel_file(kernel, "0000:01:00.0", "NVIDIA A100-SXM4-40GB", ONE)
    _kernel_file(kernel, "0000:02:00.0", "NVIDIA A100-SXM4-40GB")
    pretend_gpus.set([Gpu(ONE)])
    first, second = readers(kernel=kernel).read()["gpus"]
    assert (first["uuid"], second["sick"], second["fault"]) == (ONE, True, "unreadable")
    assert second["memory_bytes"] == first["memory_bytes"]


def test_a_card_that_vanishes_stays_in_the_list_until_it_is_back_or_gone_for_good(
    pretend_gpus: PretendGpus, readers: Readers
) -> None:
    pretend_gpus.set([Gpu(ONE), Gpu(TWO)])
    reader = readers()
    reader.read()
    assert not reader.give_back(TWO, gone=True)["returned"], "it is there"
    pretend_gpus.change(TWO, gone=True)
    assert reader.gpus()[TWO]["fault"] == "vanished"
    reader = readers()
    assert reader.gpus()[TWO]["fault"] == "vanished", "after a restart of the Worker too"
    pretend_gpus.change(TWO, gone=False)
    assert reader.well() == [ONE, TWO]
    pretend_gpus.change(TWO, gone=True)
    assert reader.gpus()[TWO]["sick"]
    assert reader.give_back(TWO, gone=True)["returned"]
    assert list(reader.gpus()) == [ONE]
    assert list(readers().gpus()) == [ONE]


@pytest.mark.parametrize("status", [9, 18, 999])
def test_a_driver_that_falls_away_takes_out_all_and_they_come_back_without_a_restart(
    pretend_gpus: PretendGpus, readers: Readers, status: int
) -> None:
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1")]), Gpu(TWO)])
    reader = readers(clean_s=60.0)
    reader.read()
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1")]), Gpu(TWO)], init_fails=status)
    found = reader.read()
    assert [(gpu["uuid"], gpu["sick"], gpu["fault"]) for gpu in found["gpus"]] == [
        ("MIG-1", True, ""), (TWO, True, ""),
    ]  # fmt: skip
    assert found["problem"].startswith("The GPUs of this machine can't be read.")
    again = readers()
    assert again.read()["problem"], "a Worker that starts meanwhile knows that there are cards"
    assert not again.give_back(TWO)["returned"]
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1")]), Gpu(TWO)])
    assert reader.well() == ["MIG-1", TWO], "no card is at fault for its driver"
    assert reader.close().count("gpu.none") == 1


def test_cards_can_be_forgotten_without_their_driver(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, slices=[Slice("MIG-1")])])
    reader = readers()
    reader.read()
    pretend_gpus.set([], init_fails=9)
    assert not reader.give_back("MIG-1")["returned"]
    assert reader.give_back(ONE, gone=True)["returned"]
    found = reader.read()
    assert (found["gpus"], found["problem"]) == ([], ""), "as on a machine that never had any"


def test_a_new_driver_is_met_by_its_own_library(tmp_path: Path) -> None:
    """A driver was updated; the old library in the Worker never fitted it again."""
    old, new = PretendGpus(tmp_path, build=1), PretendGpus(tmp_path, build=2)
    folder = tmp_path / "lib"
    folder.mkdir()
    for number, gpus in ((1, old), (2, new)):
        (folder / f"libnvidia-ml.so.{number}00").write_bytes(gpus.library.read_bytes())
    name = folder / "libnvidia-ml.so.1"
    name.symlink_to("libnvidia-ml.so.100")
    old.set([Gpu(ONE)], build=1)
    reader = Reader({**old.environment(), "LD_LIBRARY_PATH": str(folder)}, tmp_path)
    assert reader.well() == [ONE]
    old.set([Gpu(ONE)], build=2, init_fails=0)
    assert "version mismatch" in reader.read()["problem"], "its modules are there, its library is not"
    name.unlink()
    name.symlink_to("libnvidia-ml.so.200")
    assert reader.well() == [ONE]
    reader.close()


# -- faults ------------------------------------------------------------------------------------------------


def test_xid_errors_of_the_hardware_take_out_that_card_alone_and_survive_a_restart(
    pretend_gpus: PretendGpus, readers: Readers
) -> None:
    pretend_gpus.set([Gpu(ONE), Gpu(TWO)])
    reader = readers()
    assert reader.well() == [ONE, TWO]
    pretend_gpus.tell(ONE, 13)
    pretend_gpus.tell(ONE, 31)
    assert reader.well() == [ONE, TWO], "the program's own faults"
    pretend_gpus.tell(TWO, 119)
    before = time.time()
    found = reader.gpus([TWO])[TWO]
    assert (found["sick"], found["fault"]) == (True, "xid_error")
    assert before <= found["quarantined_since"] <= time.time()
    assert "XID 119" in found["note"]
    assert reader.well() == [ONE]
    later = readers().gpus()[TWO]
    assert (later["fault"], later["quarantined_since"]) == ("xid_error", found["quarantined_since"])


def test_a_card_is_returned_only_when_it_is_clean(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, remapped=(0, 1, 0, 1)), Gpu(TWO)])
    reader = readers()
    assert reader.gpus()[ONE]["fault"] == "row_remap_failed"
    refused = reader.give_back(ONE)
    assert not refused["returned"]
    assert refused["sentence"] == (
        f"{ONE} stays out: parts of its memory are broken, and no spare ones are left. Have the card replaced."
    )
    assert reader.well() == [TWO]
    pretend_gpus.change(ONE, remapped=(0, 1, 0, 0))
    assert reader.well() == [TWO], "an admin has to say so"
    assert reader.give_back(ONE)["returned"]
    assert reader.well() == [ONE, TWO]
    assert readers().well() == [ONE, TWO]
    assert reader.give_back(ONE) == {"returned": True, "sentence": f"{ONE} is not taken out."}
    unknown = reader.give_back("GPU-11")
    assert (unknown["error"], f"The nearest are {ONE}" in unknown["sentence"]) == ("NotFound", True)


def test_memory_errors_that_grow_take_a_card_out(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE, ecc=(5, 2))])
    reader = readers()
    assert reader.well() == [ONE], "they were there before"
    pretend_gpus.change(ONE, ecc=(9, 2))
    assert reader.well() == [ONE], "corrected ones are no fault"
    pretend_gpus.change(ONE, ecc=(9, 3))
    assert reader.gpus()[ONE]["fault"] == "ecc_errors"
    pretend_gpus.change(ONE, ecc=(0, 0))
    assert readers().gpus()[ONE]["fault"] == "ecc_errors"


def test_pages_or_rows_to_be_replaced_take_a_card_out_until_the_reset(
    pretend_gpus: PretendGpus, readers: Readers
) -> None:
    pretend_gpus.set([Gpu(ONE, remapped=(0, 1, 1, 0)), Gpu(TWO, retired=(0, 1, 1))])
    reader = readers()
    assert {gpu["fault"] for gpu in reader.gpus().values()} == {"row_remap"}
    pretend_gpus.set([Gpu(ONE, remapped=(0, 1, 0, 0)), Gpu(TWO, retired=(0, 1, 0))])
    assert reader.well() == [ONE, TWO]


def test_a_hiccup_passes_after_a_clean_time(pretend_gpus: PretendGpus, readers: Readers) -> None:
    pretend_gpus.set([Gpu(ONE), Gpu(TWO)])
    reader = readers(clean_s=0.5)
    reader.read()
    pretend_gpus.change(ONE, fails={"nvmlDeviceGetMemoryInfo": 999, "nvmlDeviceGetMemoryInfo_v2": 999})
    assert reader.gpus()[ONE]["fault"] == "unreadable"
    pretend_gpus.change(ONE, fails={})
    assert reader.well() == [TWO]
    time.sleep(0.6)
    assert reader.well() == [ONE, TWO]
