"""On which of a user's examples do the sides choose otherwise: step 2's --agree."""
