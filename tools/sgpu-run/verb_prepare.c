/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run prepare: whether jobs could run, in how much memory and on what; by a runner of this process, or by that of a
 * server, which keeps them.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>
#include <sgpu/json.h>
#include <sgpu/run.h>

#include "ask.h"
#include "prepared_jobs.h"
#include "service.h"
#include "verbs.h"
#include "worker.h"

struct values {
	struct worker worker;
	const char *socket;
	bool local, list;
	struct cli_bytes forget;
	struct service_path service;
};

const struct cli_option prepare_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)", CLI_TEXT(struct values, worker.selector) },
	{ "socket", 0, "PATH", "prepare them in the server there (default: see SGPU_SOCKET)", CLI_TEXT(struct values, socket) },
	{ "local", 0, NULL, "check them in this process, even where a server is", CLI_FLAG(struct values, local) },
	{ "list", 0, NULL, "show what the server keeps for this user", CLI_FLAG(struct values, list) },
	{ "forget", 0, "DIGEST", "have the server forget this one",
	  CLI_BYTES(struct values, forget, SGPU_SHA256_SIZE, SGPU_SHA256_SIZE) },
	CLI_END,
};

/* ---- what is printed ---- */
/* By the manifest alone: each operation runs on the device, and a module's function in its own process or there. */
static json_t *operations_json(const struct sgpu_manifest *m, const char *device)
{
	json_t *list = json_array();
	char module[96];

	snprintf(module, sizeof(module), "module on %s", device);
	for (int i = 0; list && i < m->operation_count; i++) {
		const struct sgpu_operation *op = &m->operations[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "gpu_operation_id", op->id, "kernel", op->kernel,
						      "runs_on", op->module ? module : device));
	}
	return list;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static int print_jobs(const json_t *jobs)
{
	struct cli_table table = { .cells = NULL };
	static const char *const names[] = { "operations", "streams", "device_memory_bytes", "uses" };
	char cells[SGPU_ARRAY_LENGTH(names)][32];
	const json_t *job, *one;
	size_t i, k;
	int status;

	cli_row(&table, "DIGEST", "OPERATIONS", "STREAMS", "DEVICE MEMORY", "USES", "PREPARED");
	json_array_foreach(jobs, i, job) {
		for (k = 0; k < SGPU_ARRAY_LENGTH(names); k++) {
			snprintf(cells[k], sizeof(cells[k]), "%" JSON_INTEGER_FORMAT,
				 json_integer_value(json_object_get(job, names[k])));
		}
		cli_row(&table, text_of(job, "digest"), cells[0], cells[1], cells[2], cells[3],
			json_is_true(json_object_get(job, "prepared")) ? "yes" : "no");
	}
	status = cli_table_print(&table);
	json_array_foreach(jobs, i, job) {
		if (status == 0 && json_object_get(job, "runs")) {
			printf("\n");
			cli_row(&table, "OPERATION", "KERNEL", "RUNS ON");
			json_array_foreach(json_object_get(job, "runs"), k, one) {
				cli_row(&table, text_of(one, "gpu_operation_id"), text_of(one, "kernel"), text_of(one, "runs_on"));
			}
			status = cli_table_print(&table);
		}
	}
	return status;
}

/* ---- by a server ---- */
static int ask_jobs(const struct values *v, enum wire_prepare_action action, const char *text, size_t size, json_t **answer,
		    struct sgpu_error *error)
{
	struct wire_prepare message = { .action = action };
	const int file = memfd_create("sgpu-run manifest", MFD_CLOEXEC);
	const struct ask ask = { .kind = WIRE_PREPARE, .message = &message, .size = sizeof(message), .fds = &file, .count = 1,
				 .expected = WIRE_PREPARED_IS, .most = WIRE_TEXT_MAX };
	char *got = NULL;
	size_t length = 0;
	int rc;

	if (file < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file");
	}
	memcpy(message.sha256, v->forget.data, sizeof(message.sha256));
	rc = sgpu_write(file, "a memory file", text, size, error);
	if (rc == SGPU_OK) {
		rc = ask_server(v->service.text, &ask, &got, &length, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_json_parse(got, length, answer, NULL, NULL, error);
	}
	free(got);
	close(file);
	return rc;
}

/* ---- by this process ---- */
static int prepare_here(struct worker *w, const char *text, size_t size, const char *name, json_t **answer,
			struct sgpu_error *error)
{
	struct sgpu_prepared_job job;
	int rc = sgpu_runner_prepare(w->devices[0].runner, text, size, name, &job, error);

	if (rc == SGPU_OK) {
		*answer = prepared_jobs_json(worker_secure_device(&w->devices[0]), &job, 1);
		rc = *answer ? SGPU_OK : sgpu_fail_nomem(error);
	}
	return rc;
}

static int open_here(struct worker *w, struct sgpu_error *error)
{
	struct landlock_needs needs = { .output_count = 0 };
	int rc = worker_open(w, NULL, error);

	return rc == SGPU_OK ? worker_start(w, &needs, false, error) : rc;
}

/* ---- all manifests ---- */
struct source {
	const char *path;
	char *text;
	size_t size;
};

/* Adds what the manifest itself says. Takes the answer over. */
static int add_job(const char *path, const struct sgpu_manifest *manifest, json_t *answer, json_t *jobs,
		   struct sgpu_error *error)
{
	json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
	int rc = SGPU_OK;

	if (!job || json_object_set_new(job, "manifest", json_string(path)) ||
	    json_object_set_new(job, "runs", operations_json(manifest, text_of(answer, "device"))) ||
	    json_array_append(jobs, job)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "there is no job in the answer, or memory is out");
	}
	json_decref(answer);
	return rc;
}

/* A manifest with errors is told with its name and the place, and nobody else is asked. */
static int prepare_one(struct values *v, const struct source *source, bool here, json_t *jobs, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_manifest *manifest = NULL;
	json_t *answer = NULL;
	int rc = sgpu_ops_load_manifest(source->text, source->size, source->path, &manifest, &diagnostics, error);

	sgpu_diagnostics_clear(&diagnostics);
	if (rc == SGPU_OK) {
		rc = here ? prepare_here(&v->worker, source->text, source->size, source->path, &answer, error) :
			    ask_jobs(v, WIRE_PREPARE_ADD, source->text, source->size, &answer, error);
	}
	if (rc == SGPU_OK) {
		rc = add_job(source->path, manifest, answer, jobs, error);
	}
	sgpu_manifest_free(&manifest);
	return rc;
}

/* Each is tried. An exit status: that of the first that fails. */
static int prepare_all(struct values *v, const struct source *sources, int count, bool here, json_t *jobs)
{
	int status = 0;

	for (int i = 0; i < count; i++) {
		struct sgpu_error error = { 0 };

		if (prepare_one(v, &sources[i], here, jobs, &error) != SGPU_OK) {
			const int failed = cli_error(&error);

			status = status ? status : failed;
		}
	}
	return status;
}

static int show(json_t *jobs)
{
	return cli_json ? cli_print_json(json_pack("{s:O}", "jobs", jobs), stdout, JSON_COMPACT) :
	       json_array_size(jobs) ? print_jobs(jobs) : 0;
}

/* A text that is no manifest is told before anybody is asked. */
static int load_sources(char **paths, struct source **sources, int *count)
{
	struct sgpu_error error = { 0 };

	for (*count = 0; paths[*count]; (*count)++) {
	}
	*sources = calloc((size_t)*count + 1, sizeof(**sources));
	if (!*sources) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	for (int i = 0; i < *count; i++) {
		(*sources)[i].path = paths[i];
		if (sgpu_read_file(paths[i], WIRE_TEXT_MAX, &(*sources)[i].text, &(*sources)[i].size, &error) != SGPU_OK) {
			return cli_error(&error);
		}
	}
	return 0;
}

/* An exit status. */
static int choose_runner(struct values *v, bool manifests, bool *here)
{
	const bool of_server = v->list || v->forget.size > 0;
	const char *option = v->local ? "--local" : strcmp(v->worker.selector, "auto") != 0 ? "--device" : NULL;
	struct sgpu_error error = { 0 };

	if (manifests == of_server || (v->list && v->forget.size > 0)) {
		return cli_usage("give manifests, or --list, or --forget");
	}
	if (option && (v->socket || of_server)) {
		return cli_usage("%s is about this process, and %s about a server", option, v->socket ? "--socket" :
				 v->list ? "--list" : "--forget");
	}
	if (service_find(v->socket, &v->service, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	*here = option || (!of_server && !v->service.named && !service_is_there(&v->service));
	return 0;
}

static int ask_other(const struct values *v)
{
	struct sgpu_error error = { 0 };
	json_t *answer = NULL;
	int status = 0;

	if (ask_jobs(v, v->list ? WIRE_PREPARE_LIST : WIRE_PREPARE_FORGET, "", 0, &answer, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (v->list) {
		status = cli_json ? cli_print_json(json_incref(answer), stdout, JSON_COMPACT) :
			 print_jobs(json_object_get(answer, "jobs"));
	}
	json_decref(answer);
	return status;
}

int verb_prepare(int argc, char **argv)
{
	struct values v = { .worker = WORKER_INIT };
	struct source *sources = NULL;
	struct sgpu_error error = { 0 };
	json_t *jobs = json_array();
	bool here = false;
	char **paths;
	int count = 0, status = cli_read(argc, argv, &v, &paths);

	status = status ? status : choose_runner(&v, *paths != NULL, &here);
	status = status ? status : load_sources(paths, &sources, &count);
	if (status == 0 && here) {
		status = worker_begin(&v.worker, NULL);
		if (status == 0 && open_here(&v.worker, &error) != SGPU_OK) {
			status = cli_error(&error);
		}
	}
	if (status == 0 && count == 0) {
		status = ask_other(&v);
	} else if (status == 0) {
		int shown;

		status = prepare_all(&v, sources, count, here, jobs);
		shown = show(jobs);
		status = status ? status : shown;
	}
	for (int i = 0; i < count; i++) {
		free(sources[i].text);
	}
	free(sources);
	json_decref(jobs);
	worker_stop(&v.worker);
	return worker_end(&v.worker, status);
}
