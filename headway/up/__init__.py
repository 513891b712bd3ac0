"""`headway up`: all of Headway on one machine, as five processes with one folder of state.

prepare.prepare(state, wishes)      lock, token, configuration, shared folder; nothing runs yet
checks.engine(config)               can containers be run at all?
supervisor.Supervisor(...).run()    starts the five, keeps them alive, stops them in a sane order
"""
