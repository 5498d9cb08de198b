"""The suppression comments themselves. `warplint.suppress` reads them and speaks for these rules."""

OPERATIONS = ("warplint.",)  # no kernel has such an operation: nothing is imported before it is asked for
