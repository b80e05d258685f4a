"""Programs that run inside the training's container, where this package is usually not installed.

``launcher`` is the text that a TrainJob's command carries; ``reporting`` is ``trainer_ops.report``, also shipped as a
stand-in package. Each is one file, understands Python 3.8, and imports nothing but the standard library: not even its
neighbour. Nobody imports ``launcher``: it is read as text. May import: the standard library.
"""
