"""What else knows v1: Python that uses its SDK or its API, DAGs, pipelines, notebooks, shell scripts.

Text in, ``Placed`` findings out: what stands at which line, what it does, and what does the same with this project,
with the names filled in. Nothing here is rewritten and nothing is run or imported: Python is read as a syntax tree.

``any.scan`` takes a file of any of these forms. May import: the rest of ``migrate``.
"""
