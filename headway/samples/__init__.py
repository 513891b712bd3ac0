"""What an attempt used, second by second: its samples, the files that keep them, and what follows from them.

``model`` has the samples and their columns, ``layout`` the bytes of a record, ``writing`` and ``reading`` the files,
``thinning`` the points of a plot, ``sums`` what is summed up at the end, ``efficiency`` asked against used.
ADR 54 says why the files look as they do.
"""
