"""``headway simulate``: runs a recorded or made-up workload under the same pass that serves the live queue."""
