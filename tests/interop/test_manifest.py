# SPDX-License-Identifier: Apache-2.0
"""The manifest's JSON Schema against jsonschema."""
import copy
import json

import jsonschema

from small_job import MANIFEST
from tap import main, sh, test, write


def schema():
    return json.loads(sh("sgpu-manifest", "schema"))


def valid(value):
    return jsonschema.Draft202012Validator(schema()).is_valid(value)


@test
def schema_is_a_schema():
    "what 'sgpu-manifest schema' prints is a JSON Schema of 2020-12"
    text = schema()
    assert text["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(text)


@test
def good_manifests_pass():
    "a manifest that 'sgpu-manifest check' takes passes the schema"
    write("job.json", json.dumps(MANIFEST).encode())
    sh("sgpu-manifest", "check", "job.json")
    assert valid(MANIFEST)


@test
def bad_manifests_fail_in_both():
    "manifests with errors of form fail both the schema and 'sgpu-manifest check'"
    def at_segment(name, value):
        def change(manifest):
            manifest["segments"][0][name] = value
        return change

    def drop(name):
        def change(manifest):
            del manifest[name]
        return change
    changes = [at_segment("direction", "IN"), at_segment("sensitivity_level", "SECRET"), at_segment("segment_id", 5),
               at_segment("surprise", 1), at_segment("data_type_info", {"dtype": "f31", "shape": [1]}),
               at_segment("data_type_info", {"dtype": "f32", "shape": [-1]}), drop("version"), drop("segments"),
               lambda manifest: manifest.update(version=2), lambda manifest: manifest.update(extra=True),
               at_segment("client_dma_input_device_ptr_var", "X"), # it is HIGH
               lambda manifest: manifest["segments"][2].update(direction="INTERMEDIATE"), # it has a location
               lambda manifest: manifest["operations"][0].update(kernel="nope"),
               lambda manifest: manifest["operations"][0].update(params={"nope": 1}),
               lambda manifest: manifest["operations"][0]["arguments"].pop("a")]
    for change in changes:
        manifest = copy.deepcopy(MANIFEST)
        change(manifest)
        write("bad.json", json.dumps(manifest).encode())
        sh("sgpu-manifest", "check", "bad.json", status=1)
        assert not valid(manifest), manifest


def with_module():
    "the small job, its addition by a kernel of its own"
    manifest = copy.deepcopy(MANIFEST)
    manifest["segments"].append({"segment_id": "code", "data_location_client": "code.ptx", "sensitivity_level": "HIGH",
                                 "direction": "INPUT"})
    manifest["operations"][0].update({
        "kernel": "module:code:add", "grid": [79], "block": [256, 1], "shared_bytes": 0,
        "module_digest": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        "params": ["output", "a", "b", {"elements": "a"}, {"bytes": "b"}, {"i32": -1}, {"u64": 3.0}, {"f32": 0.5}]})
    return manifest


@test
def modules_pass():
    "a manifest with a module passes both"
    write("module.json", json.dumps(with_module()).encode())
    sh("sgpu-manifest", "check", "module.json")
    assert valid(with_module())


@test
def bad_modules_fail_in_both():
    "manifests with errors of form in their modules fail both"
    changes = [{"kernel": "module:code"}, {"kernel": "module:code:1st"}, {"kernel": "module::add"}, {"params": {}},
               {"grid": []}, {"grid": [0]}, {"grid": [1, 65536]}, {"block": [1, 1, 65]}, {"block": 1},
               {"module_digest": ""}, {"module_digest": 5}, {"module_digest": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9"},
               {"shared_bytes": 232449}, {"params": ["output", "a", "b", 5]}, {"params": ["output", "a", "b", {}]},
               {"params": ["output", "a", "b", {"u32": -1}]}, {"params": ["output", "a", "b", {"i32": 1 << 31}]},
               {"params": ["output", "a", "b", {"u32": 1, "i32": 1}]}, {"params": ["output", "a", "b", {"i8": 1}]},
               {"params": ["output", "a", "b"] + [{"u32": 1}] * 126}, {"kernel": "vector_add"}]
    for change in changes:
        manifest = with_module()
        manifest["operations"][0].update(change)
        write("bad.json", json.dumps(manifest).encode())
        sh("sgpu-manifest", "check", "bad.json", status=1)
        assert not valid(manifest), change
    manifest = with_module()
    del manifest["operations"][0]["params"]
    write("bad.json", json.dumps(manifest).encode())
    sh("sgpu-manifest", "check", "bad.json", status=1)
    assert not valid(manifest)


main()
