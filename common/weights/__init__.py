"""Any checkpoint into both models and back, certified."""
