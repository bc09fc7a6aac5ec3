/* SPDX-License-Identifier: Apache-2.0
 *
 * Placeholders of sgpu/transfer.h, until the engine is there.
 */
#include <sgpu/transfer.h>

static int missing(struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "the transfer engine is not built");
}

int sgpu_engine_create(struct sgpu_device *device, const struct sgpu_engine_config *config,
		       struct sgpu_engine **engine, struct sgpu_error *error)
{
	(void)device;
	(void)config;
	*engine = NULL;
	return missing(error);
}

void sgpu_engine_free(struct sgpu_engine **engine)
{
	(void)engine;
}

void sgpu_engine_expect(struct sgpu_engine *engine)
{
	(void)engine;
}

int sgpu_source_from_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset,
			  struct sgpu_transfer_source *source, struct sgpu_error *error)
{
	(void)engine;
	(void)fd;
	(void)name;
	(void)offset;
	(void)source;
	return missing(error);
}

int sgpu_sink_to_file(struct sgpu_engine *engine, int fd, const char *name, uint64_t offset,
		      struct sgpu_transfer_sink *sink, struct sgpu_error *error)
{
	(void)engine;
	(void)fd;
	(void)name;
	(void)offset;
	(void)sink;
	return missing(error);
}

struct sgpu_transfer_source sgpu_source_from_memory(const void *memory, bool registered)
{
	(void)memory;
	(void)registered;
	return (struct sgpu_transfer_source){ 0 };
}

struct sgpu_transfer_sink sgpu_sink_to_memory(void *memory, bool registered)
{
	(void)memory;
	(void)registered;
	return (struct sgpu_transfer_sink){ 0 };
}

const char *sgpu_transfer_path_name(enum sgpu_transfer_path path)
{
	static const char *const names[SGPU_PATHS] = { "registered", "pinned", "pageable" };

	return (unsigned)path < SGPU_PATHS ? names[path] : "unknown";
}

const char *sgpu_engine_row_name(int row)
{
	static const char *const names[SGPU_ENGINE_ROWS] = { "copy in", "open", "seal", "copy out" };

	return row >= 0 && row < SGPU_ENGINE_ROWS ? names[row] : "host";
}

int sgpu_transfer_start(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
			struct sgpu_transfer **transfer, struct sgpu_error *error)
{
	(void)engine;
	(void)request;
	*transfer = NULL;
	return missing(error);
}

int sgpu_transfer_pump(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	(void)transfer;
	return missing(error);
}

void sgpu_transfer_cancel(struct sgpu_transfer *transfer, int code)
{
	(void)transfer;
	(void)code;
}

int sgpu_transfer_wait(struct sgpu_transfer *transfer, struct sgpu_transfer_result *result)
{
	(void)transfer;
	(void)result;
	return SGPU_EUNAVAILABLE;
}

int sgpu_transfer_sync(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
		       struct sgpu_transfer_result *result)
{
	(void)engine;
	(void)request;
	(void)result;
	return SGPU_EUNAVAILABLE;
}

int sgpu_live_key_load(struct sgpu_engine *engine, const struct sgpu_sealed_keys *keys, struct sgpu_live_key **key,
		       struct sgpu_error *error)
{
	(void)engine;
	(void)keys;
	*key = NULL;
	return missing(error);
}

void sgpu_live_key_free(struct sgpu_live_key **key)
{
	(void)key;
}

int sgpu_live_in_stages(struct sgpu_engine *engine, struct sgpu_live_key *key, enum sgpu_transfer_stage stage,
			const void *plaintext, uint64_t size, sgpu_devptr to, struct sgpu_transfer_result *result)
{
	(void)engine;
	(void)key;
	(void)stage;
	(void)plaintext;
	(void)size;
	(void)to;
	(void)result;
	return SGPU_EUNAVAILABLE;
}

int sgpu_live_in(struct sgpu_engine *engine, struct sgpu_live_key *key, const void *plaintext, uint64_t size,
		 sgpu_devptr to, struct sgpu_transfer_result *result)
{
	return sgpu_live_in_stages(engine, key, SGPU_TRANSFER_OPEN, plaintext, size, to, result);
}

int sgpu_live_out(struct sgpu_engine *engine, struct sgpu_live_key *key, sgpu_devptr from, uint64_t size,
		  void *plaintext, struct sgpu_transfer_result *result)
{
	(void)engine;
	(void)key;
	(void)from;
	(void)size;
	(void)plaintext;
	(void)result;
	return SGPU_EUNAVAILABLE;
}
