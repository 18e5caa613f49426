"""The programs of an exported repository, as they are written there; nothing here imports them.

`model_package` stands for the name of the model's package.
"""
