"""The trainings of ``trainer-ops demo``: scripts that are sent along as text and never imported.

May import: nothing of this package but ``trainer_ops.report``, as any user's script may.
"""
