/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports that the hardware makes for a guest, by the drivers' own calls: a TDREPORT, which the TDX module makes, and the
 * signed report of SEV-SNP's secure processor. The structures are those of <linux/tdx-guest.h> and <linux/sev-guest.h>, which
 * not every system has.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transition.h"

struct report_kind {
	const char *name, *device;
	int (*request)(int fd, const uint8_t data[64], uint8_t echo[64]);
};

struct report {
	const struct report_kind *kind;
	int fd;
	uint8_t data[64], echo[64];
};

static int request_tdx(int fd, const uint8_t data[64], uint8_t echo[64])
{
	struct {
		uint8_t data[64], report[1024];
	} request = { { 0 }, { 0 } };
	int rc;

	memcpy(request.data, data, 64);
	rc = ioctl(fd, _IOWR('T', 1, request), &request);
	memcpy(echo, request.report + 128, 64);
	return rc;
}

static int request_snp(int fd, const uint8_t data[64], uint8_t echo[64])
{
	uint8_t question[96] = { 0 }; /* the data, level 0, and zeros */
	uint8_t answer[4000] = { 0 }; /* 32 bytes with status and size, then the report */
	struct {
		uint8_t version;
		uint64_t question, answer, error;
	} request = { 1, (uintptr_t)question, (uintptr_t)answer, 0 };
	uint32_t status;
	int rc;

	memcpy(question, data, 64);
	rc = ioctl(fd, _IOWR('S', 0, request), &request);
	memcpy(&status, answer, sizeof(status));
	memcpy(echo, answer + 32 + 80, 64);
	errno = rc == 0 && status ? EIO : errno;
	return rc == 0 && status ? -1 : rc;
}

static int request_reports(void *argument, uint64_t count, struct sgpu_error *error)
{
	struct report *r = argument;

	for (uint64_t i = 0; i < count; i++) {
		r->data[0]++;
		if (r->kind->request(r->fd, r->data, r->echo) != 0) {
			return sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' gives no report: %s", r->kind->device, strerror(errno));
		}
	}
	return SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct report *r = argument;

	return memcmp(r->data, r->echo, sizeof(r->data)) == 0 ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the report of '%s' is of other data", r->kind->device);
}

int bench_transition_report(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct report_kind kinds[] = {
		{ "TDREPORT", "/dev/tdx_guest", request_tdx },
		{ "SNP report", "/dev/sev-guest", request_snp },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "report", 0 } } };
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(kinds); i++) {
		struct report report = { .kind = &kinds[i], .fd = open(kinds[i].device, O_RDWR | O_CLOEXEC), .data = { 0, 1 } };
		const struct crossing crossing = { kinds[i].name, request_reports, verify, &report, .single = true };

		if (report.fd < 0) {
			sgpu_bench_waive(bench, &point, crossing.name, "cannot open '%s': %s", kinds[i].device, strerror(errno));
			continue;
		}
		rc = bench_cross(bench, point, &crossing, error);
		close(report.fd);
	}
	return rc;
}
