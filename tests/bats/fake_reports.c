/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded, it makes /dev/tdx_guest and /dev/sev-guest devices that answer requests for reports:
 * in the form of the kernel's interface, with the data of the request where a report has them. With
 * SGPU_TEST_REPORT=other the data are others, with SGPU_TEST_REPORT=refused there is no report. See
 * sgpu-bench-transition.bats.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tdx_request {
	uint8_t data[64], report[1024];
};

struct snp_question {
	uint8_t data[64];
	uint32_t level;
	uint8_t reserved[28];
};

struct snp_request {
	uint8_t version;
	uint64_t question, answer, error;
};

static int tdx = -1, snp = -1;

int open(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	int *const device = !strcmp(path, "/dev/tdx_guest")   ? &tdx
			    : !strcmp(path, "/dev/sev-guest") ? &snp
							      : NULL;
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, device ? "/dev/null" : path, flags, mode);

	if (device) {
		*device = fd;
	}
	return fd;
}

static int answer_tdx(struct tdx_request *request, const char *how)
{
	memset(request->report, 0xaa, sizeof(request->report));
	memcpy(request->report + 128, request->data, 64);
	request->report[128 + 63] ^= !strcmp(how, "other");
	return 0;
}

static int answer_snp(const struct snp_request *request, const char *how)
{
	const struct snp_question *question = (const void *)(uintptr_t)request->question;
	uint8_t *answer = (void *)(uintptr_t)request->answer;
	static const uint8_t zeros[28];

	if (request->version != 1 || question->level != 0 ||
	    memcmp(question->reserved, zeros, sizeof(zeros)) != 0) {
		errno = EINVAL;
		return -1;
	}
	memset(answer, 0, 4000);
	answer[4] = 0xa0; /* the report's size, 1184 */
	answer[5] = 0x04;
	memcpy(answer + 32 + 0x50, question->data, 64);
	answer[32 + 0x50] ^= !strcmp(how, "other");
	answer[0] = strcmp(how, "status") ? 0 : 0x16; /* of the secure processor */
	return 0;
}

int ioctl(int fd, unsigned long number, ...)
{
	const char *how = getenv("SGPU_TEST_REPORT");
	va_list rest;
	va_start(rest, number);
	void *const argument = va_arg(rest, void *);
	va_end(rest);

	how = how ? how : "";
	if (fd < 0 || (fd != tdx && fd != snp)) {
		return (int)syscall(SYS_ioctl, fd, number, argument);
	}
	if (!strcmp(how, "refused")) {
		errno = EBUSY;
		return -1;
	}
	if (fd == tdx && number == _IOWR('T', 1, struct tdx_request)) {
		return answer_tdx(argument, how);
	}
	if (fd == snp && number == _IOWR('S', 0, struct snp_request)) {
		return answer_snp(argument, how);
	}
	errno = ENOTTY;
	return -1;
}
