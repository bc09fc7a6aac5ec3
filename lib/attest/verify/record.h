/* SPDX-License-Identifier: Apache-2.0
 *
 * What a native record states, unverified.
 */
#ifndef SGPU_ATTEST_VERIFY_RECORD_H
#define SGPU_ATTEST_VERIFY_RECORD_H

#include <sgpu/attest.h>

/* Whether the record carries this report data; *debug: it says that the runner's memory may be
 * looked into. Errors: SGPU_EINVALID (malformed), SGPU_EBINDING (made for something else). */
SGPU_MUST_CHECK int sgpu_record_check(const struct sgpu_record *record,
				      const uint8_t report_data[64], bool *debug,
				      struct sgpu_error *error);

#endif
