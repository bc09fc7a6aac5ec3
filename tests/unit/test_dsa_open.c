/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a work queue, and the way to the device, a write to its node. A terminal stands in for
 * the node: a device that takes what is written to it.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>

#include "dsa_harness.h"

static struct sgpu_error error;
static char folder[64];

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
		abort();
	}
}

static void make(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (mkdir(path, 0700) != 0) {
		abort();
	}
}

static void link_node(const char *name, const char *target)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/dev/%s", folder, name);
	unlink(path);
	if (symlink(target, path) != 0) {
		abort();
	}
}

/* A machine without queues. */
static void set_up(void)
{
	snprintf(folder, sizeof(folder), "/tmp/test-dsa-XXXXXX");
	if (!mkdtemp(folder)) {
		abort();
	}
	make("sys");
	make("dev");
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	CHECK(system(command) == 0);
}

static int open_nodes(struct sgpu_dsa **dsa)
{
	char nodes[128];

	snprintf(nodes, sizeof(nodes), "%s/dev", folder);
	memset(&error, 0, sizeof(error));
	return sgpu_dsa_open_in(nodes, 60000000000ull, dsa, &error);
}

static void check_refused(const char *text)
{
	struct sgpu_dsa *dsa = NULL;

	CHECK(open_nodes(&dsa) == SGPU_EUNAVAILABLE);
	CHECK(dsa == NULL);
	if (!strstr(error.text, text)) {
		printf("# '%s' is not in '%s'\n", text, error.text);
	}
	CHECK(strstr(error.text, text) != NULL);
}

UNIT_TEST(a_machine_without_queues_says_so)
{
	struct sgpu_dsa *dsa = NULL;

	CHECK(sgpu_dsa_open_in("/nonexistent", 0, &dsa, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(
		error.text,
		"no work queue of a Data Streaming Accelerator is configured ('/nonexistent')"));
	set_up();
	check_refused("no work queue of a Data Streaming Accelerator is configured");
	tear_down();
}

UNIT_TEST(this_machine_has_an_accelerator_that_works_or_a_reason)
{
	struct sgpu_dsa *dsa = NULL;
	int code = sgpu_dsa_open(&dsa, &error);

	CHECK(code == SGPU_OK || (code == SGPU_EUNAVAILABLE && error.text[0] && !dsa));
	if (code == SGPU_OK) {
		CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_OK);
	}
	sgpu_dsa_close(&dsa);
}

/* What only such a guest has: the file that tells the level of SEV-SNP. */
UNIT_TEST(a_confidential_guest_opens_none)
{
	static const char *const parts[] = { "sys/devices", "sys/devices/system",
					     "sys/devices/system/cpu",
					     "sys/devices/system/cpu/sev" };
	struct sgpu_dsa *dsa = NULL;

	set_up();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		make(parts[i]);
	}
	put("sys/devices/system/cpu/sev/vmpl", "0\n");
	setenv("SGPU_PLATFORM_ROOT", folder, 1);
	CHECK(sgpu_dsa_open(&dsa, &error) == SGPU_EUNAVAILABLE && !dsa);
	CHECK(strstr(error.text, "is not trusted in a confidential VM or enclave"));
	unsetenv("SGPU_PLATFORM_ROOT");
	tear_down();
}

UNIT_TEST(a_node_that_cannot_be_used_is_a_reason)
{
	set_up();
	link_node("wq0.1", "/nonexistent");
	check_refused("cannot open '");
	/* Not every kernel has write(2): /dev/full has none either. */
	link_node("wq0.1", "/dev/full");
	check_refused("the kernel takes no descriptor for wq0.1");
	tear_down();
}

/* The other end of a terminal is what an accelerator reads from. */
static int open_terminal(void)
{
	struct termios settings;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), slave;

	if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
		return -1;
	}
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (slave < 0 || tcgetattr(slave, &settings) != 0) {
		return -1;
	}
	cfmakeraw(&settings);
	CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
	link_node("wq0.1", ptsname(master));
	return master;
}

static void check_written(void)
{
	static uint8_t from[5000], to[5000];
	struct sgpu_dsa *dsa = NULL;

	memset(from, 0x3c, sizeof(from));
	memset(to, 0, sizeof(to));
	REQUIRE(open_nodes(&dsa) == SGPU_OK);
	CHECK(strcmp(dsa->name, "wq0.1") == 0);
	CHECK(sgpu_dsa_copy(dsa, to, from, sizeof(from), sizeof(from), 1, &error) == SGPU_OK &&
	      memcmp(from, to, sizeof(from)) == 0);
	sgpu_dsa_close(&dsa);
}

UNIT_TEST(a_write_to_its_node_gives_the_device_a_job)
{
#if defined(__SANITIZE_THREAD__)
	SKIP("the thread sanitizer does not see that a terminal orders memory");
#endif
	set_up();
	fake_begin();
	fake->from_fd = open_terminal();
	REQUIRE(fake->from_fd >= 0);
	check_written();
	fake->always = (struct order){ .deed = LIE };
	check_refused("wq0.1 gives a wrong copy");
	close(fake->from_fd);
	fake_end();
	tear_down();
}

UNIT_TEST(of_devices_that_do_not_answer_one_is_waited_for)
{
	char nodes[128];
	struct sgpu_dsa *dsa = NULL;

#if defined(__SANITIZE_THREAD__)
	SKIP("the thread sanitizer does not see that a terminal orders memory");
#endif
	set_up();
	fake_begin();
	fake->always = (struct order){ .deed = MUTE };
	fake->from_fd = open_terminal();
	REQUIRE(fake->from_fd >= 0);
	link_node("wq0.2", ptsname(fake->from_fd));
	snprintf(nodes, sizeof(nodes), "%s/dev", folder);
	CHECK(sgpu_dsa_open_in(nodes, 50000000, &dsa, &error) == SGPU_EUNAVAILABLE && !dsa);
	CHECK(strstr(error.text, "wq0.1 did not answer in 50 ms") &&
	      fake->taken <= 1); /* the proof has one job */
	close(fake->from_fd);
	fake_end();
	tear_down();
}

int main(void)
{
	UNIT_RUN(a_machine_without_queues_says_so);
	UNIT_RUN(this_machine_has_an_accelerator_that_works_or_a_reason);
	UNIT_RUN(a_confidential_guest_opens_none);
	UNIT_RUN(a_node_that_cannot_be_used_is_a_reason);
	UNIT_RUN(a_write_to_its_node_gives_the_device_a_job);
	UNIT_RUN(of_devices_that_do_not_answer_one_is_waited_for);
	return unit_done();
}
