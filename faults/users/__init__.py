"""Pairs of the kinds that users bring, each side written as another person would write it.

pairs/NAME is what a user's folder is: case.py, torch_model.py, paddle_model.py.  registry.py says
what each is run with, run.py runs them (`make faults` does, too); catalogue/users.toml plants
faults in them.
"""
