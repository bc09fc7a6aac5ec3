/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SGPU_CLIENT_H
#define SGPU_CLIENT_H

#include "remote/greeting.h"
#include "runner/start.h"

/* Has the server run the batch in the file `path` (NULL or "-": standard input), and shows the
 * response. Returns an exit status. */
int submit_to_server(const struct run_request *request, const struct sgpu_service_path *service,
		     const char *path);

#endif
