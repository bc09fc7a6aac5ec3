/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that ask the library, or the kernel by its calls: what they find is of this machine, whatever the root.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kvm.h>

#include <sgpu/attest.h>
#include <sgpu/device.h>
#include <sgpu/stage.h>

#include "doctor.h"

void doctor_ask_platform(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;

	sgpu_platform_detect(&platform);
	doctor_say(finding, strstr(check->wanted, sgpu_platform_word(platform.kind)) ? DOCTOR_OK : DOCTOR_MISSING,
		   "%s%s (%s)", sgpu_platform_name(platform.kind), platform.virtual_machine ? ", virtual" : "",
		   platform.seen);
}

/* The GPU that "cuda" means. */
static bool open_gpu(struct sgpu_device_info *info, struct sgpu_error *error)
{
	struct sgpu_device *device = NULL;
	const bool opens = sgpu_device_open("cuda", NULL, &device, error) == SGPU_OK &&
			   sgpu_device_get_info(device, info, error) == SGPU_OK;

	sgpu_device_close(&device);
	return opens;
}

void doctor_ask_gpu(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };

	(void)check;
	sgpu_platform_detect(&platform);
	if (open_gpu(&info, &error)) {
		doctor_say(finding, DOCTOR_OK, "%s, %s", info.name, info.driver);
	} else {
		doctor_say(finding, platform.gpu ? DOCTOR_WRONG : DOCTOR_MISSING, "%s", error.text);
	}
}

void doctor_ask_gpu_cc(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	const char *state = open_gpu(&info, &error) ? info.confidential : "unknown: no GPU could be opened";

	(void)check;
	doctor_say(finding, strcmp(state, "on") == 0 ? DOCTOR_OK : strcmp(state, "devtools") == 0 ? DOCTOR_WRONG :
		   DOCTOR_MISSING, "%s", state);
}

void doctor_ask_lock_limit(const struct doctor_check *check, struct doctor_finding *finding)
{
	const uint64_t limit = sgpu_lock_limit();

	doctor_say(finding, limit >= check->least ? DOCTOR_OK : DOCTOR_WRONG,
		   limit == UINT64_MAX ? "no limit" : "%" PRIu64 " KiB", limit >> 10);
}

/* The calls change nothing: landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), and memfd_secret(0),
 * which takes no second argument and no third. */
void doctor_ask_call(const struct doctor_check *check, struct doctor_finding *finding)
{
	const long got = syscall((long)check->least, NULL, (size_t)0, 1u);

	if (got < 0) {
		doctor_say(finding, errno == ENOSYS ? DOCTOR_MISSING : DOCTOR_WRONG, "%s", strerror(errno));
		return;
	}
	if (!check->wanted) {
		close((int)got);
	}
	doctor_say(finding, DOCTOR_OK, check->wanted ? "version %ld" : "the kernel has it", got);
}

void doctor_ask_kvm(const struct doctor_check *check, struct doctor_finding *finding)
{
	const int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	const int got = fd < 0 ? -1 : ioctl(fd, KVM_CHECK_EXTENSION, (unsigned long)check->least);

	if (got < 0) {
		doctor_say(finding, DOCTOR_MISSING, "unknown: /dev/kvm: %s", strerror(errno));
	} else {
		doctor_say(finding, got ? DOCTOR_OK : DOCTOR_MISSING, got ? "KVM has it" : "not in this KVM");
	}
	if (fd >= 0) {
		close(fd);
	}
}
