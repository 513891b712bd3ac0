"""What can be wrong with a machine, each with its remedy. `headway init` and `headway join` look at it."""
