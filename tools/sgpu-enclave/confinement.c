/* SPDX-License-Identifier: Apache-2.0
 *
 * Which protections this process and its modules have, as objects for --info.
 */
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "device/device.h"
#include "cli.h"
#include "harden.h"

enum { NAMESPACES_SIZE = 128 };

struct row {
	const char *name;
	bool holds;
	const char *good, *bad; /* what it means that it holds, or does not */
};

/* Returns {NAME: {"holds", "text"}, ...}. why: why some do not hold, or NULL. */
static json_t *describe(const struct row *rows, size_t count, const char *why)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		json_t *text = row->holds || !why ? json_string(row->holds ? row->good : row->bad)
						  : json_sprintf("%s: %s", row->bad, why);

		json_object_set_new(object, row->name,
				    json_pack("{s:b, s:o}", "holds", row->holds, "text", text));
	}
	return object;
}

/* Whether modules lack namespaces; the text names their kinds. */
static bool lack_namespaces(const struct sgpu_module_confinement *m, char text[NAMESPACES_SIZE])
{
	const struct {
		const char *name;
		bool there;
	} kinds[] = { { "user", m->user },   { "mount", m->mount }, { "process", m->pid },
		      { "network", m->net }, { "IPC", m->ipc },	    { "host name", m->uts } };
	bool lack = false;

	snprintf(text, NAMESPACES_SIZE, "none of its own of these kinds");
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if (!kinds[i].there) {
			cli_append(text, NAMESPACES_SIZE, "%s%s", lack ? ", " : ": ",
				   kinds[i].name);
			lack = true;
		}
	}
	return lack;
}

/* why: why no module is run; not looked at if there is a process for them. */
static json_t *describe_modules(const struct sgpu_module_confinement *m, const char *why)
{
	char kinds[NAMESPACES_SIZE];
	const struct row rows[] = {
		{ "process", m->process, "each in one of its own, without keys, of this program",
		  why },
		{ "namespaces", !lack_namespaces(m, kinds), "its own of every kind", kinds },
		{ "root", m->root, "a root directory with libraries in it, and nothing else",
		  "that of this machine" },
		{ "landlock", m->landlock != 0, "it reads libraries alone",
		  "at most its root directory keeps files from it: this kernel has no Landlock, or "
		  "it is off" },
		{ "seccomp", m->seccomp,
		  "system calls of computing code; another ends it and the run, by name",
		  "the kernel gives no listener of its calls, so no module is run" },
		{ "no_capabilities", m->capabilities, "it has none", "those of this process" },
	};

	return describe(rows, SGPU_ARRAY_LENGTH(rows), NULL);
}

json_t *confinement_claim(const struct sgpu_module_confinement *m)
{
	const bool filtered = !cli_harden_off(), confined = landlock_version() > 0;

	return !m ? json_pack("{s:b, s:b}", "seccomp", filtered, "landlock", confined)
		  : json_pack("{s:b, s:b, s:{s:b, s:b, s:b, s:b, s:b, s:b}}", "seccomp", filtered,
			      "landlock", confined, "modules", "process", m->process, "namespaces",
			      m->user && m->mount && m->pid && m->net && m->ipc && m->uts, "root",
			      m->root, "landlock", m->landlock != 0, "seccomp", m->seccomp,
			      "no_capabilities", m->capabilities);
}

int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules,
			   struct sgpu_error *error)
{
	const int rc = sgpu_device_module_confinement(device, modules, error);
	json_t *findings = NULL, *one;
	const char *name;

	if (rc == SGPU_OK && modules->process) { /* else they run on a GPU, not in a process */
		findings = describe_modules(modules, "");
	}
	json_object_foreach (findings, name, one) {
		if (!json_is_true(json_object_get(one, "holds"))) {
			cli_warning("modules are not confined in all: %s: %s", name,
				    cli_text_of(one, "text"));
		}
	}
	json_decref(findings);
	return rc;
}

json_t *confinement_try(void)
{
	struct sgpu_module_confinement m = { .process = 0 };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	int rc = sgpu_device_prepare_modules(SGPU_HOST_PATH, 1, &error);

	rc = rc ? rc : sgpu_device_open("cpu", NULL, &device, &error);

	rc = rc ? rc : sgpu_device_module_confinement(device, &m, &error);
	sgpu_device_close(&device);
	return describe_modules(&m, rc ? error.text : "");
}

json_t *harden_look(void)
{
	const char *off = cli_harden_off(), *kind = sgpu_secret_kind();
	const bool secret = strcmp(kind, "memfd_secret") == 0;
	const uint32_t trap = SECCOMP_RET_TRAP;
	struct rlimit core = { 1, 1 };
	bool closed, filters;

	if (!off) {
		cli_harden();
	}
	filters = !off && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) == 0;
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	const struct row rows[] = {
		{ "no_core", closed && core.rlim_max == 0,
		  "none is written, whatever core_pattern says",
		  "a crash may write one, with all that the runner held" },
		{ "no_attaching", closed,
		  "other processes of the same user are refused; root is not",
		  "other processes of the same user can read and write the runner's memory" },
		{ "no_new_privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
		  "no set-user-ID program gives it more rights than it has",
		  "a program that it starts may have more rights than it has" },
		{ "filtered_system_calls", filters,
		  "CPU device: those that it needs, no others; GPU: all but those that no runner "
		  "needs",
		  "all are possible" },
		{ "confined_files", landlock_version() > 0,
		  "a run opens none but the system's, those of --files, regions and its outputs "
		  "(Landlock)",
		  "a run can open all that its user can: this kernel has no Landlock, or it is "
		  "off" },
		{ "secret_memory", secret || strcmp(kind, "mlock") == 0,
		  secret ? "in memory that the kernel itself does not map (memfd_secret)"
			 : "in locked memory (mlock), which root and the kernel can read",
		  "in ordinary memory, which may be swapped: RLIMIT_MEMLOCK leaves no room" },
	};

	return describe(rows, SGPU_ARRAY_LENGTH(rows), off);
}
