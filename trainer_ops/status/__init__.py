"""What an observation means: the phase of a training, why it is not running, when to stop waiting, why it failed.

Here belong decisions: ``classify`` (observation to phase), ``why`` (what holds it up), ``wait`` (a frozen value that
says after each look: sleep, done, given up, stop), ``diagnose`` (why it failed) and ``verdict`` (which error that is).
Everything is a function of its arguments: no clock, no file, no socket, no log; the time comes in as a number. What
asks a target or sleeps belongs to ``lifecycle``. May import: ``model``, ``errors``.
"""
