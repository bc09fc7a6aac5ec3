/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a classifier of pictures on a device that another process has.
 * usage: train [WORKER [ARGUMENT...]] <DATA
 * WORKER is `sgpu-enclave --session`, here or behind ssh; without one, it is the server of this
 * machine. All that travels to it and back is sealed. DATA are SAMPLES pictures of PIXELS bytes,
 * and as many labels of one byte. RUNNER in the environment is the file of the worker's public key:
 * the one that an accepted quote names, or that of its -k. Nobody but that worker gets the data.
 * OWNER is the file of the key to sign with, for a worker that takes sessions of owners.
 *
 * Softmax regression: P = softmax(X W); W = W - rate X' (P - Y). That is one job of the session,
 * run once for each step.
 */
#include <math.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/session.h>

enum { SAMPLES = 2000, PIXELS = 784, CLASSES = 10, STEPS = 100 };

static unsigned char picture[SAMPLES][PIXELS], label[SAMPLES];
static float x[SAMPLES][PIXELS], minus_y[SAMPLES][CLASSES], w[PIXELS][CLASSES], p[SAMPLES][CLASSES];

#define SEGMENT(id, direction, shape)                                                          \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id                                                    \
	"\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":" shape "}},"
#define BETWEEN(id)                                                                \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":" \
	"\"INTERMEDIATE\"}"
#define OPERATION(id, kernel, arguments, params)                                               \
	"{\"gpu_operation_id\":\"" id "\",\"kernel\":\"" kernel "\",\"arguments\":{" arguments \
	"},\"params\":{" params "}}"
static const char step[] = "{\"version\":1,\"manifest_id\":\"train\",\"segments\":[" SEGMENT(
	"X", "INPUT", "[2000,784]") SEGMENT("Y", "INPUT",
					    "[2000,10]") SEGMENT("W", "INPUT_OUTPUT",
								 "[784,10]") SEGMENT("P", "OUTPUT",
										     "[2000,10]")
	BETWEEN("S") "," BETWEEN("D") "],\"operations\":[" OPERATION(
		"SCORE", "gemm", "\"a\":\"X\",\"b\":\"W\",\"output\":\"S\"",
		"") "," OPERATION("GUESS", "softmax", "\"input\":\"S\",\"output\":\"P\"",
				  "") "," OPERATION("ERROR", "vector_add",
						    "\"a\":\"P\",\"b\":\"Y\",\"output\":\"D\"",
						    "") "," OPERATION("LEARN", "gemm",
								      "\"a\":\"X\",\"b\":\"D\","
								      "\"c\":\"W\",\"output\":"
								      "\"W\"",
								      "\"transpose_a\":true,"
								      "\"alpha\":-0.0001,\"beta\":"
								      "1") "]}";

static pid_t start(char **command, int *in, int *out)
{
	int to[2], from[2];
	pid_t pid = pipe(to) || pipe(from) ? -1 : fork();

	if (pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		close(to[1]);
		execvp(command[0], command);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	*in = from[0];
	*out = to[1];
	return pid;
}

static void print_progress(int steps)
{
	double loss = 0;
	int right = 0;

	for (int i = 0; i < SAMPLES; i++) {
		int best = 0;

		for (int k = 1; k < CLASSES; k++) {
			best = p[i][k] > p[i][best] ? k : best;
		}
		right += best == label[i];
		loss -= log((double)p[i][label[i]] + 1e-30) / SAMPLES;
	}
	printf("step %d: loss %.4f, accuracy %.4f\n", steps, loss, (double)right / SAMPLES);
}

/* The session itself. */
static int train(struct sgpu_remote *session, struct sgpu_error *error)
{
	uint32_t job, bx, by, bw, bp;

	if (sgpu_remote_load(session, step, sizeof(step) - 1, &job, error) ||
	    sgpu_remote_alloc(session, sizeof(x), &bx, error) ||
	    sgpu_remote_alloc(session, sizeof(minus_y), &by, error) ||
	    sgpu_remote_alloc(session, sizeof(w), &bw, error) ||
	    sgpu_remote_alloc(session, sizeof(p), &bp, error) ||
	    sgpu_remote_copy_in(session, bx, 0, x, sizeof(x), error) ||
	    sgpu_remote_copy_in(session, by, 0, minus_y, sizeof(minus_y), error)) {
		return -1;
	}
	const struct sgpu_remote_range ranges[] = { { bx, 0, sizeof(x) },
						    { by, 0, sizeof(minus_y) },
						    { bw, 0, sizeof(w) },
						    { bp, 0, sizeof(p) } };
	for (int i = 1; i <= STEPS; i++) {
		if (sgpu_remote_run(session, job, ranges, 4, error)) {
			return -1;
		}
		if (i == 1 || i % 25 == 0) {
			if (sgpu_remote_copy_out(session, p, bp, 0, sizeof(p), error)) {
				return -1;
			}
			print_progress(i);
		}
	}
	return sgpu_remote_copy_out(session, w, bw, 0, sizeof(w), error);
}

int main(int argc, char **argv)
{
	const char *runner = getenv("RUNNER"), *owner = getenv("OWNER");
	struct sgpu_remote_config config = { .in = -1 };
	struct sgpu_remote *session = NULL;
	struct sgpu_key_set keys = { .key.kind = SGPU_KEY_NONE };
	struct sgpu_key key = { 0 };
	struct sgpu_error error = { .code = SGPU_EUNAVAILABLE,
				    .text = "no worker, or not the data that it should have" };
	pid_t worker = -1;
	bool known = true;
	int rc = -1;

	signal(SIGPIPE, SIG_IGN); /* a worker that has gone is an error */
	if (fread(picture, sizeof(picture), 1, stdin) == 1 &&
	    fread(label, sizeof(label), 1, stdin) == 1) {
		worker = argc > 1 ? start(argv + 1, &config.in, &config.out) : 0;
	}
	for (int i = 0; i < SAMPLES; i++) {
		for (int k = 0; k < PIXELS; k++) {
			x[i][k] = picture[i][k] / 255.0f;
		}
		minus_y[i][label[i] % CLASSES] = -1;
		known = known && label[i] < CLASSES;
	}
	config.owner = owner ? &keys.signing : NULL;
	config.runner = &key;
	if (worker >= 0 && known && runner && sgpu_key_load(runner, &key, &error) == 0 &&
	    (!owner || sgpu_key_set_load(owner, &keys, &error) == 0) &&
	    (worker ? sgpu_remote_open(&config, &session, &error)
		    : sgpu_remote_connect(NULL, config.owner, &key, &session, &error)) == 0) {
		rc = train(session, &error);
	}
	sgpu_remote_close(&session);
	sgpu_key_set_clear(&keys);
	if (worker > 0) {
		close(config.out);
		waitpid(worker, NULL, 0);
	}
	if (rc != 0) {
		fprintf(stderr, "train: %s\n%s%s", error.text, error.hint, *error.hint ? "\n" : "");
	}
	return rc == 0 ? 0 : sgpu_exit_status(error.code);
}
