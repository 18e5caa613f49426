"""Two live models: twincheck.check, which forks its caller for each side and judges in between."""
