"""What commands print with --json follows the schemas in docs/."""

import functools
import json

import fastjsonschema
import jsonschema
from conftest import SOURCE

Mismatch = fastjsonschema.JsonSchemaValueException
SCHEMAS = {path.name: json.loads(path.read_text()) for path in (SOURCE / "docs").glob("*.schema.json")}


def validator(name):
    """jsonschema's, which says more of a mismatch than check(). Schemas refer to each other by the names of their files."""
    schema = SCHEMAS[f"{name}.schema.json"]
    folder = "file:///docs/"  # any: the schemas come from here
    resolver = jsonschema.RefResolver(f"{folder}{name}.schema.json", schema, store={folder + file: entry for file, entry in SCHEMAS.items()})
    return jsonschema.Draft7Validator(schema, resolver=resolver)


@functools.cache
def _compiled(name):
    """As jsonschema interprets a schema, a long answer takes longer to check than the command takes to find it."""
    schema = SCHEMAS[f"{name}.schema.json"]
    jsonschema.Draft7Validator.check_schema(schema)
    return fastjsonschema.compile(schema, handlers={"": SCHEMAS.__getitem__})


def check(result, name):
    """Raises Mismatch unless this is as docs/`name`.schema.json says."""
    _compiled(name)(result)
