/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench doctor: what this machine has and lacks for confidential work on a GPU, and how to get
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "verbs.h"

struct request {
	bool needed[DOCTOR_CHECKS_MAX]; /* rows of the table */
};

static int take_need(void *values, const char *text)
{
	struct request *request = values;
	char names[1024] = "";

	for (size_t length = strcspn(text, ","), i;;
	     text += length + 1, length = strcspn(text, ",")) {
		for (i = 0; doctor_checks[i].name; i++) {
			if (strlen(doctor_checks[i].name) == length &&
			    memcmp(doctor_checks[i].name, text, length) == 0) {
				break;
			}
		}
		if (!doctor_checks[i].name) {
			break;
		}
		request->needed[i] = true;
		if (!text[length]) {
			return 0;
		}
	}
	for (const struct doctor_check *check = doctor_checks; check->name; check++) {
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", check->name);
	}
	return cli_usage("--need: there is no check '%.*s', but these:%s", (int)strcspn(text, ","),
			 text, names);
}

const struct cli_option doctor_options[] = {
	CLI_COMMON,
	{ "need", 0, "NAME,...", "end with 1 unless all of these are ok", CLI_TAKE(take_need) },
	CLI_END,
};

static int print_finding(const struct doctor_check *check, const struct doctor_finding *finding)
{
	static const char *const words[] = { "ok", "missing", "wrong" };
	const char *fix = finding->status == DOCTOR_OK ? NULL : check->fix;

	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:s, s:s, s:s, s:s?}", "name", check->name,
						"serves", check->serves, "status",
						words[finding->status], "found", finding->found,
						"fix", fix),
				      stdout, JSON_COMPACT);
	}
	printf("%-17s  %-7s  %s\n", check->name, words[finding->status], finding->found);
	if (fix) {
		printf("%28sfor %s: %s\n", "", check->serves, fix);
	}
	return 0;
}

int verb_doctor(int argc, char **argv)
{
	struct request request = { { false } };
	char lacking[1024] = "", **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	for (size_t i = 0; status == 0 && doctor_checks[i].name; i++) {
		struct doctor_finding finding;

		doctor_checks[i].look(&doctor_checks[i], &finding);
		status = print_finding(&doctor_checks[i], &finding);
		if (finding.status != DOCTOR_OK && request.needed[i]) {
			snprintf(lacking + strlen(lacking), sizeof(lacking) - strlen(lacking),
				 " %s", doctor_checks[i].name);
		}
	}
	return status || !lacking[0] ? status
				     : cli_fail(SGPU_EDIFFERS, "needed, and not ok:%s", lacking);
}
