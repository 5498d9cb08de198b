"""The rules: one module each at `<family>/<slug with underscores>.py`; see `warplint.rule` for what a module holds.

There is no registry file. `warplint.registry` walks this package, so that adding a rule is adding a file.
"""
