/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports that the hardware makes for a guest, by the drivers' own calls: a TDREPORT, which the TDX
 * module makes, and the signed report of SEV-SNP's secure processor. The structures are those of
 * <linux/tdx-guest.h> and <linux/sev-guest.h>, which not every system has.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transition.h"

#define TDX "/dev/tdx_guest"
#define SNP "/dev/sev-guest"

struct report {
	const char *device;
	int fd;
	uint8_t data[64], echo[64]; /* what the report is to have, and what it has */
};

static int request_tdx(struct report *r)
{
	struct {
		uint8_t data[64], report[1024];
	} request = { { 0 }, { 0 } };
	int rc;

	memcpy(request.data, r->data, 64);
	rc = ioctl(r->fd, _IOWR('T', 1, request), &request);
	memcpy(r->echo, request.report + 128, 64);
	return rc;
}

static int request_snp(struct report *r)
{
	uint8_t question[96] = { 0 }; /* the data, level 0, and zeros */
	uint32_t answer[1000] = {
		0
	}; /* 32 bytes, of which the first are the status, then the report */
	struct {
		uint8_t version;
		uint64_t question, answer, error;
	} request = { 1, (uintptr_t)question, (uintptr_t)answer, 0 };
	int rc;

	memcpy(question, r->data, 64);
	rc = ioctl(r->fd, _IOWR('S', 0, request), &request);
	memcpy(r->echo, (uint8_t *)answer + 32 + 80, 64);
	errno = rc == 0 ? EIO : errno;
	return rc == 0 && answer[0] == 0 ? 0 : -1;
}

/* One: to make a report takes longer than to take the time. */
static int request_report(void *argument, uint64_t count, struct sgpu_error *error)
{
	struct report *r = argument;

	(void)count;
	r->data[0]++;
	if ((strcmp(r->device, TDX) == 0 ? request_tdx(r) : request_snp(r)) != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' gives no report: %s", r->device,
				 strerror(errno));
	}
	return memcmp(r->data, r->echo, sizeof(r->data)) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the report of '%s' is of other data",
				   r->device);
}

int bench_transition_report(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const char *const names[] = { "TDREPORT", "SNP report" }, *const devices[] = { TDX,
											      SNP };
	const struct sgpu_bench_point point = { .parameters = { { "what", "report", 0 } } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		struct report report = { .device = devices[i],
					 .fd = open(devices[i], O_RDWR | O_CLOEXEC),
					 .data = { 0, 1 } };
		const struct crossing crossing = { names[i], request_report, &report,
						   .single = true };

		if (report.fd < 0) {
			sgpu_bench_waive(bench, &point, names[i], "cannot open '%s': %s",
					 devices[i], strerror(errno));
			continue;
		}
		rc = bench_cross(bench, point, &crossing, error);
		close(report.fd);
	}
	return rc;
}
