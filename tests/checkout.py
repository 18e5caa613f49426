"""The copy of the checkout that tests change; `make faults` plants its faults in one too."""

from faults.checkout import CHECKS, ROOT, Checkout, change

__all__ = ["CHECKS", "ROOT", "Checkout", "change"]
