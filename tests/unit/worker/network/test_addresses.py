"""Whose container an address belongs to."""

from __future__ import annotations

from worker.network.addresses import HardwareAddresses, identity_of, marks_of

ME, OTHER = identity_of("lab", "n1", "/a"), identity_of("lab", "n1", "/b")


def test_an_address_tells_the_worker_and_the_kind_of_network() -> None:
    marks, addresses = marks_of(ME), HardwareAddresses(ME)
    out, job = addresses.take("a", job=False), addresses.take("b", job=True)
    assert (marks.outgoing.fits(out), marks.job.fits(out), marks.all.fits(out)) == (True, False, True)
    assert (marks.outgoing.fits(job), marks.job.fits(job), marks.all.fits(job)) == (False, True, True)
    assert not marks_of(OTHER).all.fits(out)
    assert not marks.all.fits("02:42:ac:11:00:02"), "Docker's own"
    first = int(out[:2], 16)
    assert (first & 1, first & 2) == (0, 2), "for one receiver, and sold to nobody"


def test_no_two_containers_have_one_address() -> None:
    addresses = HardwareAddresses(ME)
    mine = addresses.take("a", job=False)
    assert addresses.take("a", job=False) == mine, "a start that is repeated"
    addresses.give_back("a")
    addresses.seen("of an earlier life", mine)
    other = addresses.take("a", job=False)
    assert other != mine
    assert addresses.take("a", job=False) == other
    addresses.give_back("of an earlier life")
    addresses.give_back("a")
    assert addresses.take("a", job=False) == mine
