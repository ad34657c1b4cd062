"""The search of each contestant's settings: trials in Optuna, within a budget of samples."""

from similis.values import import_extra

import_extra("optuna")  # the only package that imports it
