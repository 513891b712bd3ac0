"""Backup and restore of what the managers of one machine keep: databases, configuration, secrets, certificates.

`headway backup FILE` copies them while the services run, into one archive. `headway restore FILE` brings them back
where no service of the cluster lives. What lies on the shared mount is in no archive.
"""
