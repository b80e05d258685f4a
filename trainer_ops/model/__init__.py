"""The nouns: values that the rest of the package passes around.

Here belong frozen values and the parsing of raw objects into them, once, at the edge. Nothing here asks, waits,
reads a clock, a file or a socket. ``request`` is the only module that imports pydantic, so that waiting for a
training (a triggerer with a thousand of them, a supervisor per job) never pays for it: import the submodule you need,
this package imports none. May import: ``errors``.
"""
