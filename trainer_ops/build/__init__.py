"""A request becomes a TrainJob: the manifest, its name, its hash, and the code that travels in it.

Pure: equal inputs give equal bytes, and nothing here asks a target or reads a user's file. What a target would refuse
is ``validate``'s business; here only what cannot be expressed at all is refused. May import: ``model``, ``errors``, and
``shipped`` as text.
"""
