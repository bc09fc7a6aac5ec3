/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a GPU, what is known about it, and the program's symbol for the CUDA device,
 * which uses the primary context, as the CUDA runtime under the kernels does.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>

#include <sgpu/version.h>

#include <device/cuda/stream.h>
#include <device/cuda/kernels.h>
#include <ops/cuda/ops_cuda.h>

/* ---- which GPU a selector means, of those that CUDA_VISIBLE_DEVICES leaves visible ---- */
static int read_uuid(int ordinal, char *text, size_t size, struct sgpu_error *error)
{
	CUdevice handle;
	CUuuid uuid;
	char hex[33];
	CUresult result = sgpu_cu.cuDeviceGet(&handle, ordinal);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuDeviceGetUuid(&uuid, handle);
	}
	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot read a GPU's UUID");
	}
	sgpu_hex_encode(&uuid, sizeof(uuid.bytes), hex);
	snprintf(text, size, "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
		 hex + 20);
	return SGPU_OK;
}

/* By the Slurm task's number on its node: tasks that see all GPUs use different ones. */
static int by_task(void)
{
	const char *local = getenv("SLURM_LOCALID");
	uint64_t rank;

	if (!local ||
	    sgpu_parse_u64(local, "SLURM_LOCALID", 0, INT32_MAX, &rank, NULL) != SGPU_OK) {
		return 0;
	}
	return (int)(rank % (uint64_t)sgpu_cu.count);
}

static int by_index(const char *selector, const char *word, int *ordinal, struct sgpu_error *error)
{
	uint64_t index;

	if (sgpu_parse_u64(word, "the device", 0, UINT64_MAX, &index, NULL) != SGPU_OK ||
	    index >= (uint64_t)sgpu_cu.count) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "no device '%s': there %s %d", selector,
			  sgpu_cu.count == 1 ? "is" : "are", sgpu_cu.count);
		return sgpu_hint(
			error,
			"indexes start at 0 and count the GPUs that CUDA_VISIBLE_DEVICES leaves");
	}
	*ordinal = (int)index;
	return SGPU_OK;
}

static int by_uuid(const char *selector, const char *word, int *ordinal, struct sgpu_error *error)
{
	char uuid[64];
	int i, rc, found = 0;

	for (i = 0; i < sgpu_cu.count; i++) {
		rc = read_uuid(i, uuid, sizeof(uuid), error);
		if (rc < 0) {
			return rc;
		}
		if (strncasecmp(uuid, word, strlen(word)) == 0) {
			*ordinal = i;
			found++;
		}
	}
	if (found == 1) {
		return SGPU_OK;
	}
	if (found > 1) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' fits %d GPUs: give more of the UUID",
				 selector, found);
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE, "no device '%s': no visible GPU has such a UUID",
		  selector);
	return sgpu_hint(error, "nvidia-smi -L lists them; CUDA_VISIBLE_DEVICES may hide some");
}

static int select_gpu(const char *selector, int *ordinal, struct sgpu_error *error)
{
	const char *word = strchr(selector, ':');

	if (!word) {
		*ordinal = by_task();
		return SGPU_OK;
	}
	word++;
	return strncasecmp(word, "GPU-", 4) == 0 ? by_uuid(selector, word, ordinal, error)
						 : by_index(selector, word, ordinal, error);
}

/* ---- opening and closing ---- */
static int attribute(struct sgpu_device *device, CUdevice_attribute which)
{
	int value = 0;

	return sgpu_cu.cuDeviceGetAttribute(&value, which, device->handle) == CUDA_SUCCESS ? value
											   : 0;
}

static int read_node(CUdevice handle)
{
	char bus[32] = "", path[96];
	size_t i;

	if (sgpu_cu.cuDeviceGetPCIBusId(bus, sizeof(bus), handle) != CUDA_SUCCESS) {
		return -1;
	}
	for (i = 0; bus[i]; i++) {
		bus[i] = (char)tolower((unsigned char)bus[i]);
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", bus);
	return sgpu_host_node(path);
}

static void describe_driver(struct sgpu_device *device)
{
	char version[40];

	sgpu_cuda_driver_version(version, sizeof(version));
	snprintf(device->info.driver, sizeof(device->info.driver), "%s%.31s%sCUDA %u.%u",
		 version[0] ? "driver " : "", version, version[0] ? ", " : "",
		 (unsigned)sgpu_cu.version / 1000 % 1000, (unsigned)sgpu_cu.version % 1000 / 10);
}

static int look(struct sgpu_device *device, struct sgpu_error *error)
{
	CUresult result = sgpu_cu.cuDeviceGet(&device->handle, device->ordinal);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuDeviceGetName(device->info.name, sizeof(device->info.name),
						 device->handle);
	}
	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot look at the GPU");
	}
	device->info.numa_node = read_node(device->handle);
	snprintf(device->info.capability, sizeof(device->info.capability), "%u.%u",
		 (unsigned)attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) % 1000,
		 (unsigned)attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) % 1000);
	device->info.compute_units =
		(unsigned)attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	device->info.registers =
		attribute(device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) != 0;
	device->registers_read_only =
		attribute(device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 0;
	return read_uuid(device->ordinal, device->info.uuid, sizeof(device->info.uuid), error);
}

bool sgpu_cuda_in_confidential_mode(const struct sgpu_device *device)
{
	return strcmp(device->info.confidential, "on") == 0 ||
	       strcmp(device->info.confidential, "devtools") == 0;
}

static void look_closer(struct sgpu_device *device)
{
	sgpu_cuda_confidential(device->info.confidential, sizeof(device->info.confidential));
	sgpu_cuda_vbios(device->info.uuid, device->info.vbios, sizeof(device->info.vbios));
	describe_driver(device);
	/* In confidential computing mode the driver may move what kernels write first. */
	device->sees_words = strcmp(device->info.confidential, "off") == 0;
	if (sgpu_cuda_in_confidential_mode(device)) {
		device->info.registers = false;
	}
}

/* Gets the primary context, which takes the driver 100 ms, and loads NVML meanwhile. The context
 * stays to the end of the process: libraries keep handles of it, the next opening need not wait for
 * a new one, and after a fault the driver gives no other. */
static int take_context(struct sgpu_device *device, struct sgpu_error *error)
{
	pthread_t beside;
	bool started = sgpu_cuda_nvml_start(&beside);
	CUresult result = sgpu_cu.cuDevicePrimaryCtxRetain(&device->context, device->handle);

	if (started) {
		pthread_join(beside, NULL);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuCtxSetCurrent(device->context);
	}
	return result == CUDA_SUCCESS
		       ? SGPU_OK
		       : sgpu_cuda_fail(error, result, "cannot make a context on the GPU");
}

/* Closing the device closes them. */
static int set_up(struct sgpu_device *device, const struct sgpu_device_config *config,
		  struct sgpu_error *error)
{
	int rc = sgpu_cuda_memory_open(device, config->memory_limit, error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_clock_open(device, config->timer, error);
	}
	return rc == SGPU_OK ? sgpu_cuda_host_open(device, error) : rc;
}

static struct sgpu_device *make(int ordinal)
{
	struct sgpu_device *new = calloc(1, sizeof(*new));

	if (!new) {
		return NULL;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->ordinal = ordinal;
	snprintf(new->info.selector, sizeof(new->info.selector), "cuda:%d", ordinal);
	new->info.opens_on_device = new->info.pins_host_memory = true;
	new->info.piece = SGPU_CUDA_PIECE;
	new->pages.frames.device = new;
	new->pages.frames.calls = &sgpu_cuda_frame_calls;
	pthread_mutex_init(&new->lock, NULL);
	pthread_mutex_init(&new->fault_lock, NULL);
	pthread_mutex_init(&new->clock.lock, NULL);
	pthread_mutex_init(&new->memory.lock, NULL);
	pthread_mutex_init(&new->pages.frames.lock, NULL);
	pthread_mutex_init(&new->host.lock, NULL);
	pthread_mutex_init(&new->keys.lock, NULL);
	pthread_mutex_init(&new->keys.trust.lock, NULL);
	return new;
}

static void discard(struct sgpu_device *device)
{
	pthread_mutex_destroy(&device->keys.trust.lock);
	pthread_mutex_destroy(&device->keys.lock);
	pthread_mutex_destroy(&device->host.lock);
	pthread_mutex_destroy(&device->pages.frames.lock);
	pthread_mutex_destroy(&device->memory.lock);
	pthread_mutex_destroy(&device->clock.lock);
	pthread_mutex_destroy(&device->fault_lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static void close_device(struct sgpu_device *device)
{
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cu.cuCtxSynchronize());
	}
	sgpu_cuda_streams_close(device);
	sgpu_cuda_trust_close(device);
	sgpu_cuda_pages_close(device);
	sgpu_cuda_memory_close(device);
	sgpu_cuda_host_close(device);
	sgpu_cuda_clock_close(device);
	sgpu_cuda_events_close(device);
	discard(device);
}

static int open_device(const char *selector, const struct sgpu_device_config *config,
		       struct sgpu_device **device, struct sgpu_error *error)
{
	struct sgpu_device *new;
	int ordinal = 0, rc = sgpu_cuda_driver_load(error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_process_sound(error);
	}
	if (rc == SGPU_OK) {
		rc = select_gpu(selector, &ordinal, error);
	}
	if (rc < 0) {
		return rc;
	}
	new = make(ordinal);
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	rc = look(new, error);
	if (rc == SGPU_OK) {
		rc = take_context(new, error);
	}
	if (rc < 0) {
		discard(new);
		return rc;
	}
	look_closer(new);
	/* A sleep lasts longer by the thread's timer slack, 50 us unless it is set. Threads that
	 * wait for the device inherit it from this one. */
	(void)prctl(PR_SET_TIMERSLACK, 1000UL);
	rc = set_up(new, config, error);
	if (rc < 0) {
		close_device(new);
		return rc;
	}
	*device = new;
	return SGPU_OK;
}

static int get_info(struct sgpu_device *device, struct sgpu_device_info *info,
		    struct sgpu_error *error)
{
	*info = device->info;
	if (sgpu_cuda_enter(device, error) == SGPU_OK) {
		sgpu_cuda_memory_figures(device, &info->memory_total, &info->memory_free);
	}
	return sgpu_cuda_faulted(device, error);
}

static void cancel_all(struct sgpu_device *device, bool cancel)
{
	uint_fast64_t none = 0;

	if (!cancel) {
		atomic_store(&device->cancel_ns, 0);
	} else {
		(void)atomic_compare_exchange_strong(&device->cancel_ns, &none, sgpu_now_ns());
	}
}

/* ---- the parts that the device needs, found or missing ---- */
static int list_parts(struct sgpu_device_part *parts)
{
	struct sgpu_device_part driver = { .name = "driver" }, management = { .name = "NVML" },
				products = { .name = "cuBLAS" };
	struct sgpu_error error = { 0 };
	char version[64];

	driver.found = sgpu_cuda_driver_load(&error) == SGPU_OK;
	if (driver.found) {
		sgpu_cuda_driver_version(version, sizeof(version));
		snprintf(driver.text, sizeof(driver.text),
			 "libcuda.so.1%s%s, serves CUDA %d.%d, shows %d GPU%s",
			 version[0] ? ", driver " : "", version, sgpu_cu.version / 1000,
			 sgpu_cu.version % 1000 / 10, sgpu_cu.count, sgpu_cu.count == 1 ? "" : "s");
	} else {
		snprintf(driver.text, sizeof(driver.text), "%.*s", (int)sizeof(driver.text) - 1,
			 error.text);
		snprintf(driver.hint, sizeof(driver.hint), "%s", error.hint);
	}
	management.found = sgpu_cuda_nvml_found();
	snprintf(management.text, sizeof(management.text), "libnvidia-ml.so.1%s",
		 management.found ? ""
				  : " cannot be used: whether a GPU is in confidential computing "
				    "mode is not known");
	snprintf(management.hint, sizeof(management.hint), "%s",
		 management.found ? "" : "it comes with the NVIDIA driver (Debian: libnvidia-ml1)");
	products.found = sgpu_cuda_cublas_status(products.text, sizeof(products.text));
	snprintf(products.hint, sizeof(products.hint), "%s",
		 products.found ? "" : "products of matrices are computed without it, more slowly");
	parts[0] = driver;
	parts[1] = management;
	parts[2] = products;
	return 3;
}

static struct sgpu_frames *frames_of(struct sgpu_device *device)
{
	return &device->pages.frames;
}

const struct sgpu_device_backend sgpu_cuda_backend = {
	.name = "cuda",
	.probe = sgpu_cuda_driver_load,
	.open = open_device,
	.close = close_device,
	.info = get_info,
	.synchronize = sgpu_cuda_synchronize,
	.cancel = cancel_all,
	.frames = frames_of,
	.access = sgpu_frames_access,
	.op = sgpu_cuda_op,
	.parts = list_parts,
	.code = sgpu_cuda_code,
	.evidence = sgpu_cuda_evidence,
	.memory = &sgpu_cuda_memory_calls,
	.stream = &sgpu_cuda_stream_calls,
	.key = &sgpu_cuda_key_calls,
	.module = &sgpu_cuda_module_calls,
};

extern const struct sgpu_cuda_plugin sgpu_cuda_plugin __attribute__((visibility("default")));
const struct sgpu_cuda_plugin sgpu_cuda_plugin = {
	.abi = SGPU_CUDA_PLUGIN_ABI,
	.backend_size = sizeof(struct sgpu_device_backend),
	.version = SGPU_VERSION,
	.backend = &sgpu_cuda_backend,
};
