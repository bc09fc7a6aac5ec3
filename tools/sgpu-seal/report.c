/* SPDX-License-Identifier: Apache-2.0
 *
 * What was done and how fast, for people (-v) and for scripts (--json).
 */
#include <stdio.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "cli.h"
#include "parts.h"

static double seconds_since(const struct seal_meter *meter)
{
	const double seconds = (double)(sgpu_now_ns() - meter->begin_ns) / 1e9;
	return seconds > 0 ? seconds : 1e-9;
}

static unsigned threads(const struct seal_meter *meter)
{
	return meter->jobs ? meter->jobs : sgpu_cpu_count();
}

void seal_detail(const char *what, uint64_t bytes, const struct seal_meter *meter)
{
	const double seconds = seconds_since(meter);
	cli_detail("%s %llu bytes in %.3f s, %.2f GB/s, AES-256-GCM by %s, up to %u threads", what,
		   (unsigned long long)bytes, seconds, (double)bytes / seconds / 1e9,
		   sgpu_aead_provider(), threads(meter));
}

void seal_record(json_t *record, uint64_t bytes_in, uint64_t bytes_out,
		 const struct seal_meter *meter)
{
	if (cli_json && record) {
		const double seconds = seconds_since(meter);
		json_object_set_new(record, "bytes_in", json_integer((json_int_t)bytes_in));
		json_object_set_new(record, "bytes_out", json_integer((json_int_t)bytes_out));
		json_object_set_new(record, "seconds", json_real(seconds));
		json_object_set_new(record, "bytes_per_second",
				    json_real((double)bytes_in / seconds));
		json_object_set_new(record, "provider", json_string(sgpu_aead_provider()));
		json_object_set_new(record, "jobs", json_integer(threads(meter)));
		cli_print_json(json_incref(record), stderr, JSON_COMPACT);
	}
	json_decref(record);
}

json_t *seal_recipient_kids(const struct sgpu_batch *batch)
{
	json_t *kids = json_array();
	size_t i = 0;
	json_t *recipient = NULL;
	json_array_foreach (batch->recipients, i, recipient) {
		json_array_append(kids, json_object_get(recipient, "kid"));
	}
	return kids;
}

json_t *seal_signer_kids(const struct seal_keys *keys)
{
	json_t *kids = json_array();
	for (int i = 0; i < keys->signer_count; i++) {
		json_array_append_new(kids, json_string(keys->signers[i].kid));
	}
	return kids;
}
