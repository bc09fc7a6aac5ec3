/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "cases.h"

#define RATE SGPU_BENCH_BYTES_PER_SECOND
#define NS SGPU_BENCH_NS

const struct sgpu_bench_case bench_cases[] = {
	{ "bandwidth", "plain copies: pinned and pageable; to the device, from it, both at once",
	  RATE, bench_bandwidth },
	{ "aead-cpu", "AES-256-GCM on one core of the CPU, in cache: its providers", RATE,
	  bench_aead_cpu },
	{ "aead-gpu", "AES-256-GCM on the device: open and seal", RATE, bench_aead_gpu },
	{ "secure-copy", "copies sealed at rest and sealed live, next to the plain one", RATE,
	  bench_secure_copy },
	{ "peer", "copies from one device to another, sealed and plain", RATE, bench_peer },
	{ "digest", "KangarooTwelve of device memory where it lies", RATE, bench_digest },
	{ "measure", "the measure of device memory where it lies, a digest a page", RATE,
	  bench_measure },
	{ "transition", "crossing a border and back: calls, the kernel, the hypervisor, a GPU", NS,
	  bench_transition },
	{ "conversion", "pages between private and shared: hardware, a model; streaming with it",
	  NS, bench_conversion },
	{ "dsa", "copies by Intel's Data Streaming Accelerator against those of a core", RATE,
	  bench_dsa },
	{ "channel", "commands of secure channels, beside plain memory", NS, bench_channel },
	{ "session",
	  "a secure context beside the plain device: opened, groups, programs, memory, modules", NS,
	  bench_session },
	{ "sizes", "sealed work by its size: processes, a server, a session, bare calls, Python",
	  NS, bench_sizes },
	{ "app", "a whole application, sealed and unsealed: black_scholes", NS, bench_app },
	{ "training", "training of a convolutional network and an autoencoder, sealed and unsealed",
	  NS, bench_training },
	{ "exitless", "system calls of an enclave: through a queue, directly, through exits",
	  SGPU_BENCH_OPERATIONS_PER_SECOND, bench_exitless },
	{ .name = NULL },
};
