"""Pages for people: an Outcome as one self-contained HTML file.

Pure: values in, text out; no clock, no file, no script from elsewhere. May import: ``model``, ``errors``.
"""
