/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects what this machine can state about itself. Nothing is judged here; missing records are
 * named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/collect/evidence.h"

static const struct sgpu_evidence_source *const sources[] = {
	&sgpu_evidence_tsm,
	&sgpu_evidence_gramine,
	&sgpu_evidence_nvidia,
};
_Static_assert(SGPU_ARRAY_LENGTH(sources) <= SGPU_RECORDS_MAX, "a record for each source");

int sgpu_evidence_collect(const uint8_t report_data[64], struct sgpu_device *device,
			  struct sgpu_record *records)
{
	int count = (int)SGPU_ARRAY_LENGTH(sources);

	memset(records, 0, SGPU_RECORDS_MAX * sizeof(*records));
	for (int i = 0; i < count; i++) {
		struct sgpu_record *record = &records[i];
		struct sgpu_error error = { 0 };

		snprintf(record->label, sizeof(record->label), "%s", sources[i]->label);
		record->type = sources[i]->type;
		int rc = sources[i]->collect(report_data, device, &record->value, &record->size,
					     &error);
		if (rc != SGPU_OK) {
			record->value = NULL;
			record->size = 0;
			snprintf(record->absent, sizeof(record->absent), "%.255s",
				 error.text[0] ? error.text : sgpu_strerror(rc));
		}
	}
	return count;
}

void sgpu_records_clear(struct sgpu_record *records, int count)
{
	for (int i = 0; i < count; i++) {
		free(records[i].value);
	}
	memset(records, 0, (size_t)count * sizeof(*records));
}
