# SPDX-License-Identifier: Apache-2.0
"""A small job: one addition, HIGH plus LOW gives HIGH."""
N = 20000
MANIFEST = {
    "version": 1, "manifest_id": "interop",
    "segments": [
        {"segment_id": "scan", "data_location_client": "scan.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
         "gpu_operation_id": "ADD", "data_type_info": {"dtype": "f32", "shape": [N]}},
        {"segment_id": "bias", "data_location_client": "bias.f32", "sensitivity_level": "LOW", "direction": "INPUT",
         "gpu_operation_id": "ADD", "data_type_info": {"dtype": "f32", "shape": [N]}},
        {"segment_id": "sum", "data_location_client": "sum.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
         "gpu_operation_id": "ADD", "data_type_info": {"dtype": "f32", "shape": [N]}}],
    "operations": [
        {"gpu_operation_id": "ADD", "kernel": "vector_add", "arguments": {"a": "scan", "b": "bias", "output": "sum"}}]}
