"""Whole machines of the tests' own, in network namespaces, with what runs on them and what can go wrong there.

network.py   namespaces, and the switch between them
machine.py   a machine: its processes, its line, its wall clock
storage.py   a GlusterFS volume of two bricks, and its mount on a machine
task.c       what tasks run there: it tells what became of it
trust.py     certificates of its services, or a token
lab.py       five services, three Workers, two Docker Engines, storage and PostgreSQL
"""
