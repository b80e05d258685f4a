"""Both generations played without a cluster: what pods a v1 job had, and what pods its TrainJob has.

``simulate_v1`` (``v1``) and ``simulate_v2`` (``v2``) make a ``Fleet`` each (``fleet``): pods as their controllers make
them, read as the kubelet reads them (``kubelet``). ``compare`` says in what two fleets differ.

May import: what reads a job (``normalise``, ``kinds``, ``paths``, ``options``, ``findings``), ``model``.
"""
