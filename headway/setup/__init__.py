"""Makes a cluster of several machines: `headway init` on the first, `headway join` on each other one."""
