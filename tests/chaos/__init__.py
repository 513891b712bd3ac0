"""A seeded chaos run over a whole Headway, and what is checked from outside afterwards.

    python -m tests.chaos --seed 7 --minutes 15

workload.py   which jobs are submitted and cancelled, and when
faults.py     the faults: where each may strike, how long, how it begins and ends
schedule.py   jobs and faults, drawn from a seed; the file that replays them
journal.py    what was done, line by line
conductor.py  the run: submits, strikes, heals
evidence.py   what is collected from outside after the run
checks.py     what the evidence proves. Pure
reaper.py     takes down what a killed run leaves
lost.py       a machine that is lost while it runs a task
run.py        all of it, one after the other
"""
