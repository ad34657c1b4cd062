"""The search of each contestant's settings: trials in Optuna, within a budget of samples."""
