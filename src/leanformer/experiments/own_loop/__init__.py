"""Comparisons and sweeps around a training loop of the user's own: a Python function, or a command.

`arms` says what is compared, `costs` what each arm costs, `function` and `command` run the user's code, `running` says
where, `records` and `result` are the files, `comparison` and `sweep` bring them together.
"""
