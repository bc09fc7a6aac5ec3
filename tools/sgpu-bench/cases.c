/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "cases.h"

#define RATE SGPU_BENCH_BYTES_PER_SECOND
#define NS SGPU_BENCH_NS
#define DEVICE SGPU_BENCH_DEVICE

const struct sgpu_bench_case bench_cases[] = {
	{ "bandwidth", "plain copies: pinned and pageable; to the device, from it, both at once",
	  RATE, DEVICE, bench_bandwidth },
	{ "aead-cpu", "AES-256-GCM on one core of the CPU, in cache: its providers", RATE,
	  SGPU_BENCH_NOTHING, bench_aead_cpu },
	{ "aead-gpu", "AES-256-GCM on the device: open and seal", RATE, SGPU_BENCH_GPU,
	  bench_aead_gpu },
	{ "secure-copy", "copies sealed at rest and sealed live, next to the plain one", RATE,
	  DEVICE, bench_secure_copy },
	{ "peer", "copies from one device to another, sealed and plain", RATE, DEVICE, bench_peer },
	{ "digest", "KangarooTwelve of device memory where it lies", RATE, DEVICE, bench_digest },
	{ "measure", "the measure of device memory where it lies, a digest a page", RATE, DEVICE,
	  bench_measure },
	{ "transition", "crossing a border and back: calls, the kernel, the hypervisor, a GPU", NS,
	  DEVICE, bench_transition },
	{ "conversion", "pages between private and shared: hardware, a model; streaming with it",
	  NS, DEVICE, bench_conversion },
	{ "dsa", "copies by Intel's Data Streaming Accelerator against those of a core", RATE,
	  SGPU_BENCH_NOTHING, bench_dsa },
	{ "channel", "commands of secure channels, beside plain memory", NS, DEVICE,
	  bench_channel },
	{ "session",
	  "a secure context beside the plain device: opened, groups, programs, memory, modules", NS,
	  DEVICE, bench_session },
	{ "sizes", "sealed work by its size: processes, a server, a session, bare calls, Python",
	  NS, DEVICE, bench_sizes },
	{ "app", "a whole application, sealed and unsealed: black_scholes", NS, DEVICE, bench_app },
	{ "training", "training of a convolutional network and an autoencoder, sealed and unsealed",
	  NS, DEVICE, bench_training },
	{ "exitless", "system calls of an enclave: through a queue, directly, through exits",
	  SGPU_BENCH_OPERATIONS_PER_SECOND, SGPU_BENCH_NOTHING, bench_exitless },
	{ .name = NULL },
};
