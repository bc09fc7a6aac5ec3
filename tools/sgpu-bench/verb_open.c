/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench open: times opening a device in a new process, or is the worker of sessions. The case
 * session starts it.
 */
#include <inttypes.h>
#include <unistd.h>

#include "channel/group.h"

#include "cases.h"
#include "verbs.h"

struct request {
	const char *device;
	bool secure, serve;
};

const struct cli_option open_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct request, device) },
	{ "secure", 0, NULL, "with a secure context for an owner whose key is known",
	  CLI_FLAG(struct request, secure) },
	{ "serve", 0, NULL, "serve a session over the ring of descriptors 0, 3 and 4",
	  CLI_FLAG(struct request, serve) },
	CLI_END,
};

/* ---- the worker ---- */
enum { MEMORY_FD = 3, AREA_FD = 4 };

static int serve(const char *selector, struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = MEMORY_FD,
					       .area = AREA_FD,
					       .bell = STDIN_FILENO };
	struct sgpu_remote_service *service = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_device *device = NULL;
	struct sgpu_key key;
	const struct sgpu_session_authority authority = { .key = &key };
	int rc = bench_session_key(&key, error);

	rc = rc ? rc : sgpu_device_open(selector, NULL, &device, error);
	rc = rc ? rc : sgpu_secure_create(device, NULL, &context, error);
	rc = rc ? rc : sgpu_remote_service_create(context, 0, &authority, &ring, &service, error);
	rc = rc ? rc : sgpu_remote_service_run(service, error);
	sgpu_remote_service_free(&service);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return rc;
}

int verb_open(int argc, char **argv)
{
	struct request request = { .device = "auto" };
	uint64_t ns[2];
	struct sgpu_error error = { 0 };
	char **arguments;
	int rc = cli_read(argc, argv, &request, &arguments);

	if (rc) {
		return rc;
	}
	if (request.serve) {
		return serve(request.device, &error) == SGPU_OK ? 0 : cli_error(&error);
	}
	if (bench_open(request.device, 0, request.secure, ns, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	printf(cli_json ? "{\"opening_ns\":%" PRIu64 ",\"closing_ns\":%" PRIu64 "}\n"
			: "%" PRIu64 " %" PRIu64 "\n",
	       ns[0], ns[1]);
	return 0;
}
