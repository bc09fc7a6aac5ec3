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
#include "cli.h"
#include "harden.h"

enum { NAMESPACES_SIZE = 96 };

struct row {
	const char *name;
	bool holds;
	const char *good, *bad, *why; /* what it means; why it does not hold, or NULL */
};

/* Returns {NAME: {"holds", "text"}, ...}. */
static json_t *describe(const struct row *rows, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		const char *why = row->holds || !row->why ? "" : row->why;
		json_t *text = json_sprintf("%s%s%s", row->holds ? row->good : row->bad,
					    *why ? ": " : "", why);

		json_object_set_new(object, row->name,
				    json_pack("{s:b, s:o}", "holds", row->holds, "text", text));
	}
	return object;
}

/* Lists the kinds of namespaces that modules lack; "": none. */
static const char *lacking(const struct sgpu_module_confinement *m, char list[NAMESPACES_SIZE])
{
	const struct {
		const char *name;
		bool there;
	} kinds[] = { { "user", m->user },   { "mount", m->mount }, { "process", m->pid },
		      { "network", m->net }, { "IPC", m->ipc },	    { "host name", m->uts } };

	list[0] = '\0';
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if (!kinds[i].there) {
			cli_append(list, NAMESPACES_SIZE, "%s%s", *list ? ", " : "", kinds[i].name);
		}
	}
	return list;
}

/* why: why no module is run, or NULL. */
static json_t *describe_modules(const struct sgpu_module_confinement *m, const char *why)
{
	char list[NAMESPACES_SIZE];
	const struct row rows[] = {
		{ "process", m->process,
		  "each in one of its own, without keys, of a program that is part of this one",
		  "no module is run", why },
		{ "namespaces", !*lacking(m, list), "its own of every kind",
		  "none of its own of these kinds", list },
		{ "root", m->root, "a root directory with libraries in it, and nothing else",
		  "that of this machine", NULL },
		{ "landlock", m->landlock != 0, "it reads libraries alone",
		  "no files but those outside its root directory are kept from it",
		  "this kernel has no Landlock, or it is off" },
		{ "seccomp", m->seccomp,
		  "system calls of computing code; another ends it and the run, by name",
		  "all system calls are possible, in a build without libseccomp; or the kernel "
		  "gives no listener, and no module is run",
		  NULL },
		{ "no_capabilities", m->capabilities, "it has none", "those of this process",
		  NULL },
	};

	return describe(rows, SGPU_ARRAY_LENGTH(rows));
}

json_t *confinement_claim(const struct sgpu_module_confinement *m)
{
	const bool filtered = harden_filters(), confined = landlock_version() > 0;

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
		findings = describe_modules(modules, NULL);
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
	const bool runs = sgpu_device_open("cpu", NULL, &device, &error) == SGPU_OK &&
			  sgpu_device_module_confinement(device, &m, &error) == SGPU_OK;

	sgpu_device_close(&device);
	return describe_modules(&m, runs ? NULL : error.text);
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
	filters = harden_filters() && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) == 0;
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	const struct row rows[] = {
		{ "no_core", closed && core.rlim_max == 0,
		  "none is written, whatever core_pattern says",
		  "a crash may write one, with all that the runner held", off },
		{ "no_attaching", closed,
		  "other processes of the same user are refused; root is not",
		  "other processes of the same user can read and write the runner's memory", off },
		{ "no_new_privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
		  "no set-user-ID program gives it more rights than it has",
		  "a program that it starts may have more rights than it has", off },
		{ "filtered_system_calls", filters,
		  "CPU device: those that it needs, no others; GPU: all but those that no runner "
		  "needs",
		  "all are possible", off },
		{ "confined_files", landlock_version() > 0,
		  "a run opens none but the system's, those of --files, regions and its outputs "
		  "(Landlock)",
		  "a run can open all that its user can: this kernel has no Landlock, or it is "
		  "off",
		  off },
		{ "secret_memory", secret || strcmp(kind, "mlock") == 0,
		  secret ? "in memory that the kernel itself does not map (memfd_secret)"
			 : "in locked memory (mlock), which root and the kernel can read",
		  "in ordinary memory, which may be swapped: RLIMIT_MEMLOCK leaves no room", off },
	};

	return describe(rows, SGPU_ARRAY_LENGTH(rows));
}
