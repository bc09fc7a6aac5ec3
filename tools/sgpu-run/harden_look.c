/* SPDX-License-Identifier: Apache-2.0
 *
 * Which protections a runner has on this machine.
 */
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/secret.h>

#include "cli.h"
#include "harden.h"

static void note(struct harden_finding *finding, const char *name, const char *title, bool holds,
		 const char *good, const char *bad)
{
	const char *off = cli_harden_off();

	finding->name = name;
	finding->title = title;
	finding->holds = holds;
	snprintf(finding->text, sizeof(finding->text), "%s%s%s", holds ? good : bad,
		 !holds && off ? ": " : "", !holds && off ? off : "");
}

static bool traps_calls(void)
{
	const uint32_t trap = SECCOMP_RET_TRAP;

	return harden_filters() && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) == 0;
}

void harden_look(struct harden_finding findings[HARDEN_FINDINGS])
{
	const char *kind = sgpu_secret_kind();
	const bool secret = strcmp(kind, "memfd_secret") == 0, locked = strcmp(kind, "mlock") == 0;
	struct rlimit core = { 1, 1 };
	bool closed;

	if (!cli_harden_off()) {
		cli_harden();
	}
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	note(&findings[0], "no_core", "core files", closed && core.rlim_max == 0,
	     "none is written, whatever core_pattern says",
	     "a crash may write one, with all that the runner held");
	note(&findings[1], "no_attaching", "attaching", closed,
	     "other processes of the same user are refused; root is not",
	     "other processes of the same user can read and write the runner's memory");
	note(&findings[2], "no_new_privileges", "gaining rights",
	     prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
	     "no set-user-ID program gives it more rights than it has",
	     "a program that it starts may have more rights than it has");
	note(&findings[3], "filtered_system_calls", "system calls", traps_calls(),
	     "CPU device: those that it needs, no others; GPU: all but those that no runner needs",
	     "all are possible");
	note(&findings[4], "confined_files", "files", landlock_version() > 0,
	     "a run opens none but the system's, those of --files, regions and its outputs "
	     "(Landlock)",
	     "a run can open all that its user can: this kernel has no Landlock, or it is off");
	note(&findings[5], "secret_memory", "keys", secret || locked,
	     secret ? "in memory that the kernel itself does not map (memfd_secret)"
		    : "in locked memory (mlock), which root and the kernel can read",
	     "in ordinary memory, which may be swapped: RLIMIT_MEMLOCK leaves no room");
}
