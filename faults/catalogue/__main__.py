"""List the catalogue: step, model, name and what is wrong, a line a fault."""

from faults.catalogue import FAULTS

for fault in FAULTS:
    print(f"step {fault.step}  {fault.name:<17} {fault.id:<30} {fault.what}")
