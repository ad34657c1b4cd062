"""Settings of the command line as keys of a specification."""

from similis.cli.asked_spec import move_loss_options, parse_settings


def test_short_keys_are_options_of_the_loss_and_wrong_ones_stay_wrong():
    assert move_loss_options({"objective": {"margin_cos": 0.2}}) == {"objective": {"options": {"margin_cos": 0.2}}}
    mined = {"objective": {"loss": "triplet", "miner": "batch_hard"}}
    assert move_loss_options(mined) == mined
    assert move_loss_options({"seed": 1}) == {"seed": 1}


def test_values_are_yaml():
    values = {"a.b": 1e-4, "c": [1, 2], "d": None, "e": True, "f": "x=y"}
    assert parse_settings(("a.b=1e-4", "c=[1, 2]", "d=null", "e=true", "f=x=y")) == values
