"""What a check tells programs: findings, edits that mend them."""
