"""A share with NFS's ways, for machines whose kernel has no NFS: a FUSE file system over the server's folder."""
