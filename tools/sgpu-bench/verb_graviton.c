/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench graviton: the figures of the paper on Graviton beside those of the same work here. The
 * paper: Volos, Vaswani, Bruno, "Graviton: Trusted Execution Environments on GPUs", OSDI 2018,
 * section 7.
 */
#include <string.h>

#include "bench/private.h"
#include "verbs.h"

/* One figure of the paper: what takes how long in us, plain and secured, or only their ratio. 0: it
 * does not say. */
struct row {
	const char *place, *what;
	double plain, secured, ratio;
	const char *name,
		*point; /* the case and the point here; the point as "key=value;key=value" */
	const char *before,
		*after; /* its variants; before: NULL if there is no such work without protection */
	const char *note; /* what differs; or, without a case, why there is no figure here */
};

/* Table 2, and the line of figure 9 that is in the text, too: the columns Base, and those up to
 * AES-CPU, SHA3-CPU and AES-GPU added to it. With the last one it is the secure copy. */
#define COPY(size, bytes, base, aes, tags, total)                                             \
	{ "table 2",                                                                          \
	  size ": base, AES on the CPU",                                                      \
	  base,                                                                               \
	  aes,                                                                                \
	  0,                                                                                  \
	  "secure-copy",                                                                      \
	  "direction=breakdown;size_bytes=" #bytes,                                           \
	  "base",                                                                             \
	  "+ AES on CPU",                                                                     \
	  "" },                                                                               \
		{ "table 2",                                                                  \
		  size ": and SHA-3 on the CPU",                                              \
		  base,                                                                       \
		  tags,                                                                       \
		  0,                                                                          \
		  "secure-copy",                                                              \
		  "direction=breakdown;size_bytes=" #bytes,                                   \
		  "base",                                                                     \
		  "+ tags on CPU",                                                            \
		  "here GHASH" },                                                             \
	{                                                                                     \
		"table 2", "secure copy, " size, base, total, 0, "secure-copy",               \
			"direction=breakdown;size_bytes=" #bytes, "base", "+ opening on GPU", \
			"here GHASH; overlapped"                                              \
	}

#define POOLS "here a pool of mapped pages, also plain"

static const struct row rows[] = {
	/* Plain: the column Base. Secured: the sum of all columns. */
	{ "table 1", "CH_CREATE", 2, 2330, 0, "channel", "command=CH_CREATE", NULL, "channel", "" },
	{ "table 1", "CH_DESTROY", 1, 10684, 0, "channel", "command=CH_DESTROY", "plain", "channel",
	  "plain: memory of that size freed" },
	{ "table 1", "CH_PDE, small", 1, 3950, 0, "channel", "command=CH_PDE-small", NULL,
	  "channel", "" },
	{ "table 1", "CH_PDE, big", 1, 183, 0, "channel", "command=CH_PDE-big", NULL, "channel",
	  "" },
	{ "table 1", "CH_PTE, 8 small", 8, 125, 0, "channel", "command=CH_PTE;pages=small-8",
	  "mapping alone", "channel",
	  "plain: the device's part; a GPU's small pages have 2 MiB here" },
	{ "table 1", "CH_PTE, 8 big", 8, 404, 0, "channel", "command=CH_PTE;pages=big-8",
	  "mapping alone", "channel",
	  "plain: the device's part; a GPU's big pages have 64 MiB here" },
	COPY("4 KB", 4096, 20, 30, 50, 460),
	COPY("64 KB", 65536, 30, 80, 190, 700),
	COPY("256 KB", 262144, 80, 180, 520, 1430),
	COPY("4 MB", 4194304, 1070, 2530, 5720, 12570),
	COPY("64 MB", 67108864, 11050, 36500, 88290, 176870),
	{ .place = "figure 9",
	  .what = "secure copy, other hashes",
	  .note = "the paper has these figures in a drawing only, and there is one AEAD here" },
	{ "table 3", "cuCtxCreate", 77650, 252630, 0, "session", "what=first of a process", "plain",
	  "secure", "there with an RSA key made; here before keys are agreed with a GPU" },
	{ "table 3", "cuCtxDestroy", 17000, 29430, 0, "session", "what=last of a process", "plain",
	  "secure", "" },
	{ "table 3", "cuModuleLoad", 1720, 85270, 0, "session", "what=module", "plain", "secure",
	  "here the smallest module" },
	{ "table 3", "cuMemAlloc, small", 20, 190, 0, "session", "what=alloc;size_bytes=4096",
	  "plain", "secure pool", POOLS },
	{ "table 3", "cuMemAlloc, big", 30, 430, 0, "session", "what=alloc;size_bytes=262144",
	  "plain", "secure pool", POOLS },
	{ "table 3", "cuMemFree, small", 30, 280, 0, "session", "what=free;size_bytes=4096",
	  "plain", "secure pool", POOLS },
	{ "table 3", "cuMemFree, big", 50, 660, 0, "session", "what=free;size_bytes=262144",
	  "plain", "secure pool", POOLS },
	{ "section 7.3", "secure launch", 0, 9.2, 0, "session", "what=launch", "bare launch",
	  "sealed, ring", "there what is added to a launch; here to the end of the kernel" },
	{ "section 7.3", "command group sealed and opened", 0, 3.8, 0, "session",
	  "what=group;group_bytes=72", NULL, "sealed group", "" },
	{ .place = "figure 10",
	  .what = "Cifar-10, initialization",
	  .ratio = 1.73,
	  .note = "its parts are in table 3: a context, a module, copies" },
	{ .place = "figure 10",
	  .what = "Cifar-10, testing",
	  .ratio = 1.57,
	  .note = "a training here is one batch, and the test a part of it" },
	{ "figure 10", "Cifar-10, training", 0, 0, 1.53, "training", "network=cnn", "unsealed",
	  "sealed", "here a step with Fashion-MNIST" },
	{ .place = "figure 11",
	  .what = "Cifar-10, a hardware engine assumed",
	  .ratio = 1.17,
	  .note = "no GPU here has an engine that opens copies, and none is assumed" },
	{ "figure 11", "MNIST autoencoder", 0, 0, 1.33, "training", "network=autoencoder",
	  "unsealed", "sealed", "here a step with Fashion-MNIST" },
	{ "figure 11", "BlackScholes", 0, 0, 1.26, "app",
	  "app=black_scholes;device=resident;payloads=staged;against=bare calls;at_once=1",
	  "bare calls", "sealed", "there 2500 iterations a batch, here one" },
};

const struct cli_option graviton_options[] = { CLI_COMMON, CLI_END };

/* Whether a record has the parameters "key=value;key=value". */
static bool is_at(const struct sgpu_bench_record *record, const char *point)
{
	char all[SGPU_BENCH_KEY_MAX] = "", word[SGPU_BENCH_KEY_MAX];
	bool found = true;

	sgpu_bench_add_parameters(record, ';', all);
	strcat(all, ";");
	for (; found && *point; point += strcspn(point, ";"), point += *point == ';') {
		snprintf(word, sizeof(word), ";%.*s;", (int)strcspn(point, ";"), point);
		found = strstr(all, word) != NULL;
	}
	return found;
}

/* The first record of a variant; or one that says why the point, or the case, has none; or NULL. */
static const struct sgpu_bench_record *find(const struct sgpu_bench_results *results,
					    const struct row *row, const char *variant)
{
	const struct sgpu_bench_record *why = NULL;

	for (size_t i = 0; variant && row->name && i < results->count; i++) {
		const struct sgpu_bench_record *r = &results->records[i];

		if (strcmp(r->name, row->name) != 0 ||
		    (r->parameter_count && !is_at(r, row->point))) {
			continue;
		}
		if (strcmp(r->variant, variant) == 0 && r->status == SGPU_BENCH_PASSED) {
			return r;
		}
		why = r->status != SGPU_BENCH_PASSED &&
				      (!r->variant[0] || strcmp(r->variant, variant) == 0)
			      ? r
			      : why;
	}
	return why;
}

static double ns_of(const struct sgpu_bench_record *record)
{
	return record && record->status == SGPU_BENCH_PASSED
		       ? record->ns.median / (double)(record->operations ? record->operations : 1)
		       : 0;
}

static double ratio_of(const struct sgpu_bench_record *before,
		       const struct sgpu_bench_record *after)
{
	if (ns_of(before) <= 0 || ns_of(after) <= 0) {
		return 0;
	}
	return strcmp(after->ratio_to, before->variant) == 0 ? after->ratio.median
							     : ns_of(after) / ns_of(before);
}

static void print_number(double value, bool is_ratio)
{
	char text[TEXT_MAX];

	if (is_ratio) {
		snprintf(text, sizeof(text), value < 1000 ? "%.3g x" : "%.0f x", value);
	}
	print_cell(stdout, value <= 0 ? "" : is_ratio ? text : time_text(value, text));
}

static void print_row(const struct row *row, const struct sgpu_bench_results *results)
{
	const struct sgpu_bench_record *before = find(results, row, row->before),
				       *after = find(results, row, row->after);
	const double paper = row->ratio > 0   ? row->ratio
			     : row->plain > 0 ? row->secured / row->plain
					      : 0;
	char note[512];

	snprintf(note, sizeof(note), "%s", row->note);
	if (!row->name) {
		snprintf(note, sizeof(note), "not measured: %s", row->note);
	} else if (!after || after->status != SGPU_BENCH_PASSED) {
		snprintf(note, sizeof(note),
			 after ? "%s: %s"
			       : "not measured: no such record of case '%s' in these results%s",
			 after ? sgpu_bench_status_name(after->status) : row->name,
			 after ? after->reason : "");
	}
	print_cell(stdout, row->place);
	print_cell(stdout, row->what);
	print_number(1e3 * row->plain, false);
	print_number(1e3 * row->secured, false);
	print_number(paper, true);
	print_number(ns_of(before), false);
	print_number(ns_of(after), false);
	print_number(ratio_of(before, after), true);
	print_cell(stdout, note);
	fputs("|\n", stdout);
}

/* Adds the records of a file, which have to be of the same device and processor. */
static int add_file(const char *path, struct sgpu_bench_results *all)
{
	struct sgpu_bench_results one = { 0 };
	struct sgpu_error error = { 0 };
	int status = read_results(path, &one), rc = SGPU_OK;

	for (int i = 0; status == 0 && rc == SGPU_OK && all->environment && i < 2; i++) {
		const char *key = i ? "processor" : "device";

		if (!json_equal(json_object_get(all->environment, key),
				json_object_get(one.environment, key))) {
			rc = sgpu_fail(&error, SGPU_EINVALID, "'%s' has results of another %s",
				       path, key);
		}
	}
	for (size_t i = 0; status == 0 && rc == SGPU_OK && i < one.count; i++) {
		rc = sgpu_bench_results_add(all, &one.records[i], &error);
	}
	if (status == 0 && !all->environment) {
		all->environment = json_incref(one.environment);
	}
	sgpu_bench_results_clear(&one);
	return status ? status : rc == SGPU_OK ? 0 : cli_error(&error);
}

int verb_graviton(int argc, char **argv)
{
	struct sgpu_bench_results all = { 0 };
	char **paths;
	int status = cli_read(argc, argv, NULL, &paths);

	for (; status == 0 && *paths; paths++) {
		status = add_file(*paths, &all);
	}
	if (status == 0) {
		printf("| paper | what | plain there | secured there | ratio there | plain here | "
		       "secured here | ratio here | "
		       "note |\n|---|---|---|---|---|---|---|---|---|\n");
	}
	for (size_t i = 0; status == 0 && i < SGPU_ARRAY_LENGTH(rows); i++) {
		print_row(&rows[i], &all);
	}
	sgpu_bench_results_clear(&all);
	return status;
}
