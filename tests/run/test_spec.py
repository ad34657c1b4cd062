"""The specification: wrong values by their place, dotted changes, a schema."""

import json

import pytest
import yaml

from similis.cli.spec_template import example_text
from similis.run.spec import RunSpec, parse_spec, read_spec, replace_values, schema
from similis.values import UserError
from tests.docs.blocks import ROOT
from tests.run.small import VALUES, small


def test_wrong_values_are_named_with_their_place():
    with pytest.raises(UserError, match=r"data.protocol is 'best'.*'default'.*; training.lr is -1.*greater than 0"):
        parse_spec(replace_values(VALUES, {"training.lr": -1, "data.protocol": "best"}))


def test_dotted_changes_leave_the_rest_and_the_original():
    before = json.dumps(VALUES)
    made = replace_values(VALUES, {"objective.options.margin_cos": 0.2, "training.epochs": 7})
    assert json.dumps(VALUES) == before
    assert made["objective"] == {"options": {"margin_cos": 0.2}}
    assert made["training"] == VALUES["training"] | {"epochs": 7}
    with pytest.raises(UserError, match="holds no keys of its own"):
        replace_values(VALUES, {"training.epochs.first": 1})


def test_yaml_and_json_files_are_the_same_specification(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(VALUES))
    (tmp_path / "a.json").write_text(json.dumps(VALUES))
    assert read_spec(tmp_path / "a.yaml") == read_spec(tmp_path / "a.json") == small()
    assert read_spec(tmp_path / "a.yaml", {"seed": 3}).seed == 3


def test_a_specification_survives_json():
    spec = small(objective__nested_sizes=[2, 4], objective__options={"margin_cos": 0.2})
    assert parse_spec(json.loads(spec.model_dump_json())) == spec


def test_the_published_schema_is_the_current_one():
    """To write it anew: similis train --template schema > docs/schema/run.json"""
    assert json.loads((ROOT / "docs" / "schema" / "run.json").read_text(encoding="utf-8")) == schema()


def test_the_schema_refuses_unknown_keys_and_describes_the_known_ones():
    parts = schema()["$defs"]
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert parts["TrainingSpec"]["properties"]["epochs"]["description"]


def test_the_written_example_is_a_specification_of_all_defaults():
    values = yaml.safe_load(example_text())
    assert parse_spec(values) == parse_spec({"data": {"source": "photos/"}})
    assert set(values) == set(RunSpec.model_fields)
