"""What an attempt used, second by second: its samples, the files that keep them, and what follows from them.

``model`` has the samples and their columns, ``layout`` the bytes of a record. ``writing`` and ``reading`` do the
files. ``thinning`` makes the points of a plot, ``sums`` what is summed up at the end.
``efficiency`` compares what was asked for with what was used. ADR 54 says why the files look as they do.
"""
