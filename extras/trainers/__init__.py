"""Trainings that somebody else's trainer logged, judged beside step 5's: its --torch-losses."""
