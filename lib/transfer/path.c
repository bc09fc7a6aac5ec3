/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/transfer.h"

const char *sgpu_transfer_path_name(enum sgpu_transfer_path path)
{
	static const char *const names[SGPU_PATHS] = {
		[SGPU_PATH_REGISTERED] = "registered",
		[SGPU_PATH_PINNED] = "pinned",
		[SGPU_PATH_PAGEABLE] = "pageable",
	};

	return (unsigned)path < SGPU_PATHS ? names[path] : "unknown";
}
