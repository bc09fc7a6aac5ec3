/* SPDX-License-Identifier: Apache-2.0
 *
 * Which protections this process and its modules have, as objects for --info.
 */
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/base.h"
#include "device/device.h"
#include "cli.h"
#include "harden.h"

static json_t *modules_json(const struct sgpu_module_confinement *m)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "process", m->process, "namespaces",
			 m->user && m->mount && m->pid && m->net && m->ipc && m->uts, "root",
			 m->root, "landlock", m->landlock != 0, "seccomp", m->seccomp,
			 "no_capabilities", m->capabilities);
}

json_t *confinement_claim(const struct sgpu_module_confinement *m)
{
	return json_pack("{s:b, s:b, s:o*}", "seccomp", !cli_harden_off(), "landlock",
			 landlock_version() > 0, "modules", m->process ? modules_json(m) : NULL);
}

int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules,
			   struct sgpu_error *error)
{
	const int rc = sgpu_device_module_confinement(device, modules, error);
	json_t *parts = NULL, *holds;
	char lacks[128] = "";
	const char *name;

	if (rc == SGPU_OK && modules->process) { /* else they run on a GPU, not in a process */
		parts = modules_json(modules);
	}
	json_object_foreach (parts, name, holds) {
		if (json_is_false(holds)) {
			cli_append(lacks, sizeof(lacks), "%s%s", *lacks ? ", " : "", name);
		}
	}
	if (*lacks) {
		cli_warning("modules are not confined in all: %s", lacks);
	}
	json_decref(parts);
	return rc;
}

json_t *confinement_try(void)
{
	struct sgpu_module_confinement m = { .process = 0 };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	int rc = sgpu_device_prepare_modules(SGPU_HOST_PATH, 1, &error);
	json_t *parts;

	rc = rc ? rc : sgpu_device_open("cpu", NULL, &device, &error);
	rc = rc ? rc : sgpu_device_module_confinement(device, &m, &error);
	sgpu_device_close(&device);
	parts = modules_json(&m);
	if (rc != SGPU_OK) {
		json_object_set_new(parts, "missing", json_string(error.text));
	}
	return parts;
}

json_t *harden_look(void)
{
	const char *off = cli_harden_off();
	struct rlimit core = { 1, 1 };
	bool closed, filters;

	if (!off) {
		cli_harden();
	}
	filters = !off && seccomp_api_get() >= 2; /* filters of all threads */
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:s, s:s*}", "no_core",
			 closed && core.rlim_max == 0, "no_attaching", closed, "no_new_privileges",
			 prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "filtered_system_calls",
			 filters, "confined_files", landlock_version() > 0, "secret_memory",
			 sgpu_secret_kind(), "missing", off);
}
