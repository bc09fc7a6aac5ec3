/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a case and makes its records.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "base/base.h"
#include "bench/bench.h"
#include "host/host.h"

const char *const sgpu_bench_statuses[] = { "passed", "waived", "failed", NULL };

void sgpu_bench_give(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		     const char *variant, enum sgpu_bench_status status, json_t *more)
{
	const struct sgpu_bench_case *row = bench->row;
	json_t *parameters = json_object(), *record;

	for (int i = 0; point && i < SGPU_BENCH_PARAMETERS_MAX; i++) {
		const struct sgpu_bench_parameter *p = &point->parameters[i];

		if (p->key) {
			json_object_set_new(parameters, p->key,
					    p->text ? json_string(p->text)
						    : json_integer((json_int_t)p->number));
		}
	}
	record = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "record", "measurement", "case",
			   row->name, "variant", variant ? variant : "", "unit", row->unit,
			   "status", sgpu_bench_statuses[status], "parameters", parameters);
	json_object_update_new(record, more);
	bench->counts[status]++;
	bench->record(bench->argument, record);
	json_decref(record);
}

void sgpu_bench_give_error(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   const char *variant, const struct sgpu_error *error)
{
	sgpu_bench_give(bench, point, variant,
			error->code == SGPU_EUNAVAILABLE || error->code == SGPU_ENOMEM
				? SGPU_BENCH_WAIVED
				: SGPU_BENCH_FAILED,
			json_pack("{s:s}", "reason",
				  error->text[0] ? error->text : sgpu_strerror(error->code)));
}

void sgpu_bench_waive(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		      const char *variant, const char *format, ...)
{
	struct sgpu_error why = { .code = SGPU_EUNAVAILABLE };
	va_list arguments;

	va_start(arguments, format);
	sgpu_message_format(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	sgpu_bench_give_error(bench, point, variant, &why);
}

bool sgpu_bench_wants(const struct sgpu_bench *bench, uint64_t size)
{
	const struct sgpu_bench_options *o = &bench->options;

	return size >= o->size_min && (o->size_max == 0 || size <= o->size_max);
}

int sgpu_bench_fits(const struct sgpu_bench *bench, uint64_t host_bytes, uint64_t device_bytes,
		    struct sgpu_error *error)
{
	struct sgpu_device_info info = { .memory_free = 0 };
	uint64_t available;
	bool is_host;

	sgpu_host_memory(NULL, &available);
	if (bench->device && sgpu_device_get_info(bench->device, &info, NULL) == SGPU_OK &&
	    !info.opens_on_device) {
		host_bytes += device_bytes; /* this device's memory is the host's */
	}
	is_host = host_bytes > available - available / 8;
	if (!is_host && !(bench->device && device_bytes > info.memory_free)) {
		return SGPU_OK;
	}
	return sgpu_fail(error, SGPU_ENOMEM,
			 "%" PRIu64 " MiB of %smemory are needed, %" PRIu64 " MiB are available",
			 (is_host ? host_bytes : device_bytes) >> 20, is_host ? "" : "device ",
			 (is_host ? available : info.memory_free) >> 20);
}

int sgpu_bench_run(const struct sgpu_bench_case *row, const struct sgpu_bench_options *options,
		   struct sgpu_device *device, void (*record)(void *argument, const json_t *record),
		   void *argument, enum sgpu_bench_status *status, struct sgpu_error *error)
{
	struct sgpu_bench bench = { .options = *options,
				    .row = row,
				    .record = record,
				    .argument = argument,
				    .gate.copies = 1 };
	int rc = SGPU_OK;

	*error = (struct sgpu_error){ 0 };
	bench.options.jobs = options->jobs ? options->jobs : sgpu_cpu_count();
	if (device) {
		bench.device = device;
		rc = sgpu_device_get_info(device, &bench.info, error);
		rc = rc ? rc : sgpu_bench_new_stream(&bench, device, &bench.stream, error);
		rc = rc ? rc : sgpu_bench_new_stream(&bench, device, &bench.gate.stream, error);
		rc = rc ? rc
			: sgpu_bench_new_pinned(&bench, SGPU_BENCH_GATE, &bench.gate.from, error);
		rc = rc ? rc
			: sgpu_bench_new_device_memory(&bench, SGPU_BENCH_GATE, &bench.gate.to,
						       error);
	}
	rc = rc ? rc : row->run(&bench, error);
	sgpu_bench_release(&bench, NULL);
	error->code = rc;
	if (rc != SGPU_OK && rc != SGPU_ECANCELED && !bench.told) {
		sgpu_bench_give_error(&bench, NULL, NULL, error);
	} else if (rc == SGPU_OK && sgpu_all_zero(bench.counts, sizeof(bench.counts))) {
		sgpu_bench_waive(&bench, NULL, NULL, "nothing of the sizes that were asked for");
	}
	*status = bench.counts[SGPU_BENCH_FAILED]   ? SGPU_BENCH_FAILED
		  : bench.counts[SGPU_BENCH_PASSED] ? SGPU_BENCH_PASSED
						    : SGPU_BENCH_WAIVED;
	return rc == SGPU_ECANCELED ? rc : SGPU_OK;
}
