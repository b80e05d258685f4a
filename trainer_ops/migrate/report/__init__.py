"""What a migration has come to, for scripts and people.

``results`` are the nouns that whoever reads the files fills in, ``data.build`` makes one JSON value of them (its form
is documented there and kept), ``markdown`` and ``pages.migration`` make texts of that value and of nothing else.

May import: the rest of ``migrate`` but the scanners' insides, ``model``.
"""
