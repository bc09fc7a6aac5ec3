/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of admission, sgpu-batch(5): a batch with several mistakes is refused for that of the
 * first step, and nothing is recorded before the last.
 */
#include "batch/batch.h"
#include "batch/index.h"
#include "run_harness.h"

static struct sgpu_replay *replay;
static char folder[64];

static void open_replay(void)
{
	strcpy(folder, "/tmp/sgpu-admission-XXXXXX");
	if (!mkdtemp(folder) || sgpu_replay_create(folder, UINT64_MAX >> 1, &replay, &error) != 0) {
		abort();
	}
}

static void close_replay(void)
{
	char command[80];

	sgpu_replay_free(&replay);
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	CHECK(system(command) == 0);
}
static struct sgpu_key signer, other;
static const char *owners[1];
static bool with_files;

enum mistake {
	FORM,
	KEY,
	MAC,
	OWNER,
	INDEX_DIGEST,
	INDEX_FORM,
	MANIFEST_DIGEST,
	AGREEMENT,
	NOTE,
	LOCATION,
	KERNEL,
	SIZES,
	PLACE,
	MISTAKES
};

static const struct {
	int code;
	const char *text;
} wanted[] = {
	[FORM] = { SGPU_EINVALID, "seal.json: unknown member 'maC'" },
	[KEY] = { SGPU_EKEY, "none of the keys is a recipient" },
	[MAC] = { SGPU_EAUTH, "the mac of seal.json does not verify" },
	[OWNER] = { SGPU_EPOLICY, "none of the owners of this runner" },
	[INDEX_DIGEST] = { SGPU_EAUTH, "batch.json is not the one that seal.json names" },
	[INDEX_FORM] = { SGPU_EINVALID, "batch.json: unknown member 'alG'" },
	[MANIFEST_DIGEST] = { SGPU_EAUTH, "the manifest is not the one" },
	[AGREEMENT] = { SGPU_EPOLICY, "segment 'scan' is HIGH and MASKING_NONE" },
	[NOTE] = { SGPU_EAUTH, "the note is not the one that batch.json names" },
	[LOCATION] = { SGPU_EINVALID, "segment 'bias': offset and size do not fit" },
	[KERNEL] = { SGPU_EINVALID, "manifest.json" },
	[SIZES] = { SGPU_EINVALID, "segment 'bias' has 101 bytes in the batch and 100" },
	[PLACE] = { SGPU_EPOLICY,
		    "segment 'bias' is in a file, and this runner fetches from none" },
};

static void prepare(struct sgpu_submission *submission)
{
	submission->options.replay = replay;
	submission->options.owners = owners;
	submission->options.owner_count = 1;
	submission->options.files = with_files ? run_files : NULL;
}

static void replace(char *text, const char *from, const char *to)
{
	memcpy(strstr(text, from), to, strlen(to));
}

/* What the index says wrong of the segments. */
static void change_segments(struct sgpu_batch *batch, unsigned mistakes)
{
	struct sgpu_batch_segment *s = batch->segments;

	if (mistakes & 1u << AGREEMENT) {
		s[0].masking = SGPU_MASKING_NONE;
		s[0].sealed = false;
		s[0].has_kt128 = true;
	}
	s[1].size += mistakes >> SIZES & 1;
	if (mistakes & 1u << LOCATION) {
		s[1].location = (struct sgpu_location){ .kind = SGPU_LOCATION_REGION,
							.offset = UINT64_MAX };
		memset(s[1].location.region, 'a', SGPU_REGION_ID_TEXT);
	} else if (mistakes & 1u << PLACE) {
		s[1].location =
			(struct sgpu_location){ .kind = SGPU_LOCATION_FILE, .file = strdup("/x") };
	}
}

static void sign(struct job *job)
{
	if (sgpu_seal_json_freeze(job->batch, &error) ||
	    sgpu_batch_add_signature(job->batch, &signer, &error) ||
	    sgpu_batch_sign(job->batch, job->key, &error)) {
		printf("# %s\n", error.text);
		abort();
	}
}

static int write_mistaken(struct job *job, unsigned mistakes)
{
	struct sgpu_batch *batch = job->batch;
	const int fd = memfd_create("batch", MFD_CLOEXEC);
	char head[4 * SGPU_TAR_BLOCK];

	batch->counter = 1;
	change_segments(batch, mistakes);
	if (mistakes & 1u << KERNEL) {
		replace(batch->manifest_text, "\"copy\"", "\"coPy\"");
		(void)!sgpu_sha256(batch->manifest_text, batch->manifest_size,
				   batch->manifest_sha256, &error);
	}
	sgpu_batch_change(batch, true);
	sign(job);
	if (mistakes & 1u << INDEX_FORM) {
		replace(batch->index_text, "\"alg\"", "\"alG\"");
		(void)!sgpu_sha256(batch->index_text, batch->index_size, batch->index_sha256,
				   &error);
		sgpu_batch_change(batch, false);
		sign(job);
	}
	if (mistakes & 1u << INDEX_DIGEST) {
		replace(batch->index_text, "\"aead\"", "\"aEad\"");
	}
	batch->mac[31] ^= mistakes >> MAC & 1;
	batch->manifest_text[batch->manifest_size - 1] ^= mistakes >> MANIFEST_DIGEST & 1;
	batch->note[batch->note_size - 1] ^= mistakes >> NOTE & 1;
	write_batch(job, fd);
	if (mistakes & 1u << FORM) {
		if (pread(fd, head, sizeof(head), 0) != sizeof(head)) {
			abort();
		}
		replace(memmem(head, sizeof(head), "{\"mac\"", 6), "{\"mac\"", "{\"maC\"");
		if (pwrite(fd, head, sizeof(head), 0) != sizeof(head)) {
			abort();
		}
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void try_mistakes(unsigned mistakes, int first)
{
	struct job job;
	uint8_t identity[SGPU_SHA256_SIZE];
	int in, out = memfd_create("response", MFD_CLOEXEC), rc;

	make_job(&job, 100);
	in = write_mistaken(&job, mistakes);
	owners[0] = mistakes & 1u << OWNER ? other.kid : signer.kid;
	rc = run_with(mistakes & 1u << KEY ? &stranger : &owner, in, out, 0, NULL);
	CHECK(rc == wanted[first].code && strstr(error.text, wanted[first].text));
	if (rc != wanted[first].code || !strstr(error.text, wanted[first].text)) {
		printf("# step %d: %d '%s'\n", first, rc, error.text);
	}
	CHECK(is_empty(out));
	CHECK(sgpu_batch_identity(job.batch, identity, &error) == 0 &&
	      sgpu_replay_take(replay, identity, job.batch->counter, job.batch->counter, &error) ==
		      0);
	free_job(&job);
	close(in);
	close(out);
}

/* With each step's mistake come those of all later steps. */
UNIT_TEST(a_mistake_hides_those_of_later_steps)
{
	prepare_submission = prepare;
	open_replay();
	for (int first = FORM; first < MISTAKES; first++) {
		try_mistakes(~0u << first & ((1u << MISTAKES) - 1), first);
	}
	close_replay();
}

UNIT_TEST(each_mistake_alone_is_refused_with_the_same_text_and_not_recorded)
{
	open_replay();
	for (int only = FORM; only < MISTAKES; only++) {
		try_mistakes(1u << only, only);
	}
	close_replay();
}

/* Refused for where its payload lies, by the step before the last. */
UNIT_TEST(only_a_batch_that_was_admitted_is_recorded)
{
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC);

	open_replay();
	owners[0] = signer.kid;
	make_job(&job, 100);
	close(stage_scan(&job, 0));
	in = write_mistaken(&job, 0);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EPOLICY &&
	      strstr(error.text, "fetches from none"));
	with_files = true;
	for (int again = 0; again < 2; again++) {
		CHECK(lseek(in, 0, SEEK_SET) == 0);
		CHECK(run_with(&owner, in, out, 0, NULL) == (again ? SGPU_ETAKEN : 0));
	}
	CHECK(strstr(error.text, "taken before"));
	with_files = false;
	close_replay();
	free_job(&job);
	close(in);
	close(out);
}

UNIT_TEST(a_batch_whose_payloads_do_not_arrive_stays_taken)
{
	struct job job;
	char tail[3 * SGPU_TAR_BLOCK];
	int in, out = memfd_create("response", MFD_CLOEXEC);

	open_replay();
	owners[0] = signer.kid;
	make_job(&job, 100);
	in = write_mistaken(&job, 0);
	const off_t cut = lseek(in, 0, SEEK_END) - (off_t)sizeof(tail);
	REQUIRE(pread(in, tail, sizeof(tail), cut) == sizeof(tail) && ftruncate(in, cut) == 0 &&
		lseek(in, 0, SEEK_SET) == 0);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_EINVALID);
	REQUIRE(pwrite(in, tail, sizeof(tail), cut) == sizeof(tail) && lseek(in, 0, SEEK_SET) == 0);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_ETAKEN);
	CHECK(is_empty(out));
	close_replay();
	free_job(&job);
	close(in);
	close(out);
}

int main(void)
{
	open_device(1);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error) ||
	    sgpu_key_generate(SGPU_KEY_OCT, &stranger, &error) ||
	    sgpu_key_generate(SGPU_KEY_ED25519, &signer, &error) ||
	    sgpu_key_generate(SGPU_KEY_ED25519, &other, &error)) {
		bail_out();
	}
	UNIT_RUN(a_mistake_hides_those_of_later_steps);
	UNIT_RUN(each_mistake_alone_is_refused_with_the_same_text_and_not_recorded);
	UNIT_RUN(only_a_batch_that_was_admitted_is_recorded);
	UNIT_RUN(a_batch_whose_payloads_do_not_arrive_stays_taken);
	sgpu_device_close(&device);
	return unit_done();
}
