/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of recordings on a GPU: a kernel that counts its runs and fails when it is told to, and
 * secure contexts.
 */
#ifndef RECORDING_HARNESS_H
#define RECORDING_HARNESS_H

#include <dlfcn.h>
#include <stdint.h>

#include "device/device.h"
#include "channel/channel.h"

#include "cuda_harness.h"

enum { PAGE = 4096, NEVER = 1 << 30 };

/* ---- a kernel that adds one to a word, and fails if the word has reached a limit or the counters
 * are not clear ---- */
static const char ptx[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry bump(.param .u64 word, .param .u64 status, .param .u64 counters, .param "
	".u32 limit, .param .u32 code)\n"
	"{\n\t.reg .pred %full, %used;\n\t.reg .b32 %value, %more, %limit, %code, %old, %one;\n"
	"\t.reg .b64 %word, %status, %counters, %long;\n"
	"\tld.param.u64 %word, [word];\n\tld.param.u64 %status, [status];\n\tld.param.u64 "
	"%counters, [counters];\n"
	"\tld.param.u32 %limit, [limit];\n\tld.param.u32 %code, [code];\n"
	"\tcvta.to.global.u64 %word, %word;\n\tcvta.to.global.u64 %status, %status;\n"
	"\tcvta.to.global.u64 %counters, %counters;\n"
	"\tld.global.u32 %value, [%word];\n\tadd.u32 %more, %value, 1;\n\tst.global.u32 [%word], "
	"%more;\n"
	"\tld.global.u32 %old, [%counters];\n\tmov.u32 %one, 1;\n\tst.global.u32 [%counters], "
	"%one;\n"
	"\tsetp.ge.u32 %full, %value, %limit;\n\tsetp.ne.u32 %used, %old, 0;\n\tor.pred %full, "
	"%full, %used;\n"
	"\tcvt.s64.s32 %long, %code;\n\t@%full st.global.u64 [%status], %long;\n\tret;\n}\n";

/* The driver's functions that the tests call: their types, without its header. */
static struct {
	int (*load)(void **module, const void *image);
	int (*unload)(void *module);
	int (*find)(void **function, void *module, const char *name);
	int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		      unsigned shared, void *native, void **params, void **extra);
	int (*synchronize)(void *native);
	void *module, *bump;
} driver;

static inline bool find_symbol(void *library, const char *name, void *to)
{
	void *found = library ? dlsym(library, name) : NULL;

	memcpy(to, &found, sizeof(found));
	return found != NULL;
}

/* begin(), and the kernel is loaded into the device's context, which is this thread's after any
 * call. */
static inline bool begin_with_kernel(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	return find_symbol(library, "cuModuleLoadData", &driver.load) &&
	       find_symbol(library, "cuModuleUnload", &driver.unload) &&
	       find_symbol(library, "cuModuleGetFunction", &driver.find) &&
	       find_symbol(library, "cuLaunchKernel", &driver.launch) &&
	       find_symbol(library, "cuStreamSynchronize", &driver.synchronize) && begin() &&
	       works() && driver.load(&driver.module, ptx) == 0 &&
	       driver.find(&driver.bump, driver.module, "bump") == 0;
}

static inline void finish_with_kernel(void)
{
	CHECK(works());
	CHECK(driver.unload(driver.module) == 0);
	finish();
}

struct bump {
	sgpu_devptr word;
	uint32_t limit;
	int code;
};

static inline int bump(struct sgpu_launch *launch, void *argument)
{
	const struct bump *b = argument;
	uint64_t word = b->word, status = (uintptr_t)launch->status,
		 counters = (uintptr_t)launch->counters;
	uint32_t limit = b->limit, code = (uint32_t)b->code;
	void *params[] = { &word, &status, &counters, &limit, &code };

	int result = driver.launch(driver.bump, 1, 1, 1, 1, 1, 1, 0, launch->native, params, NULL);

	return result == 0 ? SGPU_OK
			   : sgpu_fail(launch->error, SGPU_EDEVICE,
				       "the driver refused a launch: %d", result);
}

static inline uint32_t word_at(struct sgpu_stream *on, sgpu_devptr memory)
{
	uint32_t word = ~0u;

	CHECK(sgpu_copy_out(on, &word, memory, sizeof(word), NULL) == SGPU_OK &&
	      sgpu_stream_sync(on, NULL) == SGPU_OK);
	return word;
}

static inline sgpu_devptr cleared_words(struct sgpu_device *of, struct sgpu_stream *on)
{
	sgpu_devptr memory = 0;

	CHECK(sgpu_device_alloc(of, PAGE, &memory, NULL) == SGPU_OK);
	CHECK(sgpu_device_clear(on, memory, PAGE, NULL) == SGPU_OK &&
	      sgpu_stream_sync(on, NULL) == SGPU_OK);
	return memory;
}

/* ---- in secure contexts ---- */
struct inside {
	struct sgpu_secure *context;
	struct sgpu_device *device;
	struct sgpu_stream *stream;
};

static inline bool enter(struct inside *in, struct sgpu_secure *sibling)
{
	const struct sgpu_secure_config config = { .sibling = sibling };
	struct sgpu_error error = { 0 };

	*in = (struct inside){ .context = NULL };
	if (sgpu_secure_create(device, &config, &in->context, &error) != SGPU_OK ||
	    sgpu_stream_create(in->device = sgpu_secure_device(in->context), &in->stream, &error) !=
		    SGPU_OK) {
		printf("# %s\n", error.text);
		return false;
	}
	return true;
}

static inline void leave(struct inside *in)
{
	sgpu_stream_free(&in->stream);
	sgpu_secure_destroy(&in->context);
}

#endif
