/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of platforms, and the collection of their evidence from trees that stand in for the
 * kernel's.
 */
/* Of a fortified header, read is inline, and cannot be replaced. */
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include <device/backend.h>

#include "attest/quote.h"
#include "base/json.h"
#include "unit.h"

/* Its open, read, write, close, mkdir and rmdir take the place of those of libc in this program. */
#include "../bats/fake_tsm.c"

static char folder_of_test[PATH_MAX];
static uint8_t report_data[64];

/* A path in the test's folder; good until the fourth call after it. */
static const char *in_folder(const char *name)
{
	static char paths[4][PATH_MAX + 64];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder_of_test, name);
	return path;
}

static void put_file(const char *name, const void *data, size_t size)
{
	FILE *file = fopen(in_folder(name), "w");

	if (!file || fwrite(data, 1, size, file) != size || fclose(file)) {
		abort();
	}
}

static size_t entries(const char *path)
{
	DIR *folder = opendir(path);
	size_t count = 0;

	while (folder && readdir(folder)) {
		count++;
	}
	if (folder) {
		closedir(folder);
	}
	return count - 2; /* . and .. */
}

static struct sgpu_record records[SGPU_RECORDS_MAX];
static struct sgpu_device *device;

static const struct sgpu_record *collect(const char *label)
{
	sgpu_records_clear(records);
	sgpu_evidence_collect(report_data, device, records);
	for (int i = 0; records[i].label; i++) {
		if (!strcmp(records[i].label, label)) {
			return &records[i];
		}
	}
	abort();
}

/* With a fault, the report is absent for this reason, and no folder is left. */
static bool absent_because(const char *name, const char *reason)
{
	setenv("FAKE_TSM_FAULT", name, 1);
	const struct sgpu_record *record = collect("tsm-report");
	bool good = !record->value && !record->size && strstr(record->absent, reason) &&
		    !entries(in_folder("tsm"));

	if (!good) {
		printf("# %s: '%s'\n", name, record->absent);
	}
	unsetenv("FAKE_TSM_FAULT");
	return good;
}

UNIT_TEST(each_kind_has_its_name_and_word)
{
	CHECK(!strcmp(sgpu_platform_word(SGPU_PLATFORM_PLAIN), "plain"));
	CHECK(!strcmp(sgpu_platform_word(SGPU_PLATFORM_GRAMINE_DIRECT), "gramine-direct"));
	CHECK(!strcmp(sgpu_platform_word(SGPU_PLATFORM_GRAMINE_SGX), "sgx"));
	CHECK(!strcmp(sgpu_platform_word(SGPU_PLATFORM_TDX), "tdx"));
	CHECK(!strcmp(sgpu_platform_word(SGPU_PLATFORM_SNP), "snp"));
	CHECK(!strcmp(sgpu_platform_word((enum sgpu_platform_kind)99), "unknown"));
	CHECK(strstr(sgpu_platform_name(SGPU_PLATFORM_SNP), "SEV-SNP") != NULL);
}

/* A device that gives evidence, and nothing else. */
static uint8_t seen_nonce[32];
static int evidence_code;

static int give_evidence(struct sgpu_device *of, const uint8_t nonce[32],
			 struct sgpu_device_evidence *evidence, struct sgpu_error *error)
{
	(void)of;
	memcpy(seen_nonce, nonce, sizeof(seen_nonce));
	snprintf(evidence->architecture, sizeof(evidence->architecture), "HOPPER");
	evidence->report = (uint8_t *)strdup("report");
	evidence->report_size = 6;
	evidence->chain = (uint8_t *)strdup("chain");
	evidence->chain_size = 5;
	return evidence_code ? sgpu_fail(error, evidence_code, "the GPU is busy") : SGPU_OK;
}

UNIT_TEST(evidence_of_a_gpu_is_over_a_nonce_drawn_from_the_report_data)
{
	/* SHAKE256 of the bytes 100 to 163, by another implementation. */
	static const char nonce[] =
		"d40cb4b66f60914aad07dfa87adbb4e43d4b68863a5d6d8f5a68b93b69a93c85";
	static const struct sgpu_device_backend backend = { .evidence = give_evidence };
	struct sgpu_device_object made = { .backend = &backend };
	char hex[65], expected[512];

	device = (struct sgpu_device *)(void *)&made;
	const struct sgpu_record *record = collect("nv-gpu-evidence");
	sgpu_hex_encode(seen_nonce, sizeof(seen_nonce), hex);
	CHECK(!strcmp(hex, nonce));
	snprintf(expected, sizeof(expected),
		 "[{\"arch\":\"HOPPER\",\"certificate\":\"Y2hhaW4=\",\"evidence\":\"cmVwb3J0\","
		 "\"nonce\":\"%s\"}]",
		 nonce);
	CHECK(record->value && !strcmp(record->value, expected) &&
	      !strcmp(record->type, SGPU_TYPE_NVIDIA));
	evidence_code = SGPU_EDEVICE;
	record = collect("nv-gpu-evidence");
	CHECK(!record->value && !strcmp(record->absent, "the GPU is busy"));
	device = NULL;
}

static enum sgpu_platform_kind detected(void)
{
	struct sgpu_platform platform;

	sgpu_platform_detect(&platform);
	CHECK(platform.seen && platform.seen[0]);
	return platform.kind;
}

static void make_folders(const char *path)
{
	char part[PATH_MAX];

	snprintf(part, sizeof(part), "%s", in_folder(path));
	for (char *slash = part + strlen(folder_of_test) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		(void)!mkdir(part, 0700);
		*slash = '/';
	}
}

UNIT_TEST(detection_goes_by_what_only_such_a_guest_has)
{
	static const char gramine[] = "root/dev/attestation/attestation_type",
			  cpuinfo[] = "root/proc/cpuinfo",
			  vmpl[] = "root/sys/devices/system/cpu/sev/vmpl",
			  snp[] = "root/dev/sev-guest",
			  reports[] = "root/sys/kernel/config/tsm/report/";
	struct sgpu_platform platform;

	setenv("SGPU_PLATFORM_ROOT", in_folder("root"), 1);
	make_folders(gramine);
	make_folders(vmpl);
	make_folders(cpuinfo);
	CHECK(detected() == SGPU_PLATFORM_PLAIN);
	/* A host with such processors shows this flag, too. */
	put_file(cpuinfo, "model\t: x\nflags\t\t: fpu sev_snp hypervisor\n", 42);
	CHECK(detected() == SGPU_PLATFORM_PLAIN);
	sgpu_platform_detect(&platform);
	CHECK(platform.virtual_machine && !platform.reports && !platform.gpu);
	make_folders(reports);
	sgpu_platform_detect(&platform);
	CHECK(platform.reports);
	put_file(cpuinfo, "flags\t\t: fpu tdx_guest\n", 24);
	CHECK(detected() == SGPU_PLATFORM_TDX);
	put_file(snp, "", 0);
	CHECK(detected() == SGPU_PLATFORM_SNP);
	REQUIRE(unlink(in_folder(snp)) == 0);
	put_file(vmpl, "0\n", 2);
	CHECK(detected() == SGPU_PLATFORM_SNP);
	put_file(gramine, "dcap\n", 5);
	CHECK(detected() == SGPU_PLATFORM_GRAMINE_SGX);
	put_file(gramine, "none\n", 5);
	CHECK(detected() == SGPU_PLATFORM_GRAMINE_DIRECT);
	unsetenv("SGPU_PLATFORM_ROOT");
	CHECK(strcmp(sgpu_platform_word(detected()), "unknown") != 0);
}

UNIT_TEST(detection_waits_for_nobody)
{
	static const char gramine[] = "fifos/dev/attestation/attestation_type",
			  cpuinfo[] = "fifos/proc/cpuinfo";
	struct sgpu_platform platform;

	make_folders(gramine);
	make_folders(cpuinfo);
	REQUIRE(mkfifo(in_folder(gramine), 0600) == 0);
	REQUIRE(mkfifo(in_folder(cpuinfo), 0600) == 0);
	setenv("SGPU_PLATFORM_ROOT", in_folder("fifos"), 1);
	sgpu_platform_detect(&platform);
	CHECK(platform.kind == SGPU_PLATFORM_PLAIN && !platform.virtual_machine);
	unsetenv("SGPU_PLATFORM_ROOT");
}

UNIT_TEST(protection_is_never_more_than_the_platform_gives)
{
	for (int kind = SGPU_PLATFORM_PLAIN; kind <= SGPU_PLATFORM_SNP; kind++) {
		struct sgpu_platform platform = { .kind = (enum sgpu_platform_kind)kind };
		bool machine = kind == SGPU_PLATFORM_TDX || kind == SGPU_PLATFORM_SNP;
		bool guest = machine || kind == SGPU_PLATFORM_GRAMINE_SGX;

		CHECK(sgpu_platform_protection(&platform, false, "", false)->protects == guest);
		CHECK(sgpu_platform_protection(&platform, true, "off", false)->protects == guest);
		CHECK(strstr(sgpu_platform_protection(&platform, true, "off", false)->bus,
			     "the key too") != NULL);
		CHECK(strstr(sgpu_platform_protection(&platform, true, "devtools", true)->bus,
			     "the device made") != NULL);
		CHECK((strcmp(sgpu_platform_protection(&platform, true, "on", false)->bus,
			      "nothing") == 0) == machine);
		CHECK(strcmp(sgpu_platform_protection(&platform, true, "devtools", false)->bus,
			     "nothing") != 0);
	}
}

UNIT_TEST(what_is_absent_is_named_with_its_reason)
{
	setenv("SGPU_TSM_ROOT", in_folder("nowhere"), 1);
	setenv("SGPU_GRAMINE_ROOT", in_folder("nowhere"), 1);
	CHECK(strstr(collect("tsm-report")->absent, "cannot make a report in '") != NULL);
	CHECK(strstr(collect("gramine")->absent, "/attestation_type'") != NULL);
	CHECK(strstr(collect("nv-gpu-evidence")->absent, "no device") != NULL);
	CHECK(records[2].label && !records[3].label);
	setenv("SGPU_TSM_ROOT", in_folder("tsm"), 1);
}

UNIT_TEST(a_report_is_over_what_was_written)
{
	json_t *document = NULL;
	uint8_t blob[12 + 64];
	struct sgpu_error error;
	const struct sgpu_record *record = collect("tsm-report");

	REQUIRE(record->value != NULL);
	CHECK(!strcmp(record->type, SGPU_TYPE_TSM) && !record->absent[0]);
	REQUIRE(sgpu_json_parse(record->value, record->size, NULL, &document, NULL) == SGPU_OK);
	CHECK(sgpu_json_bytes(document, "record", "outblob", blob, sizeof(blob), &error) ==
	      SGPU_OK);
	CHECK(!memcmp(blob, "a report of ", 12) && !memcmp(blob + 12, report_data, 64));
	CHECK(sgpu_json_bytes(document, "record", "auxblob", blob, 12, &error) == SGPU_OK);
	CHECK(!memcmp(blob, "certificates", 12));
	CHECK(!strcmp(json_string_value(json_object_get(document, "provider")), "sev_guest\n"));
	CHECK(!entries(in_folder("tsm")));
	json_decref(document);
}

UNIT_TEST(a_report_without_auxblob_is_whole)
{
	setenv("FAKE_TSM_PROVIDER", "tdx_guest", 1);
	const struct sgpu_record *record = collect("tsm-report");
	CHECK(record->value && strstr(record->value, "\"auxblob\":\"\"") &&
	      strstr(record->value, "tdx_guest\\n"));
	unsetenv("FAKE_TSM_PROVIDER");
}

UNIT_TEST(one_quote_takes_one_report)
{
	char line[64];
	int lines = 0;

	setenv("FAKE_TSM_LOG", in_folder("log"), 1);
	CHECK(collect("tsm-report")->value != NULL);
	unsetenv("FAKE_TSM_LOG");
	FILE *log = fopen(in_folder("log"), "r");
	REQUIRE(log != NULL);
	while (fgets(line, sizeof(line), log)) {
		CHECK(!strcmp(line, "64 bytes\n"));
		lines++;
	}
	fclose(log);
	CHECK(lines == 1);
}

UNIT_TEST(each_fault_of_the_kernel_has_its_own_words)
{
	CHECK(absent_because("no-provider", "no driver gives reports"));
	CHECK(absent_because("busy", "is busy"));
	CHECK(absent_because("write-error", "cannot write"));
	CHECK(absent_because("lost-write", "did not take the report's data: its generation is 0"));
	CHECK(absent_because("intruder",
			     "something else wrote to our report: its generation is 2"));
	CHECK(absent_because("late-error", "took the data and then gave no report"));
	CHECK(absent_because("empty", "an empty report"));
}

UNIT_TEST(a_quote_of_gramine_is_read_after_its_data_are_written)
{
	uint8_t written[65];

	setenv("SGPU_GRAMINE_ROOT", in_folder("gramine"), 1);
	put_file("gramine/attestation_type", "none\n", 5);
	CHECK(strstr(collect("gramine")->absent, "without SGX") != NULL);
	put_file("gramine/attestation_type", "dcap", 4);
	put_file("gramine/user_report_data", "", 0);
	put_file("gramine/quote", "", 0);
	CHECK(strstr(collect("gramine")->absent, "empty quote") != NULL);
	put_file("gramine/quote", "quote", 5);
	const struct sgpu_record *record = collect("gramine");
	CHECK(record->value &&
	      !strcmp(record->value, "{\"attestation_type\":\"dcap\",\"quote\":\"cXVvdGU\"}"));
	CHECK(get(in_folder("gramine"), "user_report_data", (char *)written, sizeof(written)) ==
	      64);
	CHECK(!memcmp(written, report_data, 64));
	unlink(in_folder("gramine/user_report_data"));
	CHECK(strstr(collect("gramine")->absent, "user_report_data") != NULL);
	put_file("gramine/user_report_data", "", 0);
	unlink(in_folder("gramine/quote"));
	CHECK(strstr(collect("gramine")->absent, "quote") != NULL);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

int main(void)
{
	const char *shared = getenv("TMPDIR");

	snprintf(folder_of_test, sizeof(folder_of_test), "%s/sgpu-platform.XXXXXX",
		 shared ? shared : "/tmp");
	if (!mkdtemp(folder_of_test) || mkdir(in_folder("tsm"), 0700) ||
	    mkdir(in_folder("gramine"), 0700) || mkdir(in_folder("tdx"), 0700)) {
		abort();
	}
	for (size_t i = 0; i < sizeof(report_data); i++) {
		report_data[i] = (uint8_t)(i + 100);
	}
	UNIT_RUN(each_kind_has_its_name_and_word);
	UNIT_RUN(detection_goes_by_what_only_such_a_guest_has);
	UNIT_RUN(detection_waits_for_nobody);
	UNIT_RUN(protection_is_never_more_than_the_platform_gives);
	UNIT_RUN(what_is_absent_is_named_with_its_reason);
	UNIT_RUN(a_report_is_over_what_was_written);
	UNIT_RUN(a_report_without_auxblob_is_whole);
	UNIT_RUN(one_quote_takes_one_report);
	UNIT_RUN(each_fault_of_the_kernel_has_its_own_words);
	UNIT_RUN(evidence_of_a_gpu_is_over_a_nonce_drawn_from_the_report_data);
	UNIT_RUN(a_quote_of_gramine_is_read_after_its_data_are_written);
	sgpu_records_clear(records);
	nftw(folder_of_test, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return access(folder_of_test, F_OK) ? unit_done() : 1;
}
