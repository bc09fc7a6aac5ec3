/* SPDX-License-Identifier: Apache-2.0
 *
 * A script of channel commands: its lines as words, its world (a processor on a device, owners with
 * their keys and what they know of their channels), and what each command came to.
 */
#ifndef SGPU_MEASURE_CHANNEL_SCRIPT_H
#define SGPU_MEASURE_CHANNEL_SCRIPT_H

#include <stdbool.h>
#include <stdio.h>

#include <sgpu/channel.h>

enum {
	SCRIPT_WORDS = 64,
	SCRIPT_LINE = 4096,
	SCRIPT_OWNERS = 16,
	SCRIPT_NAME = 32,
	SCRIPT_CHANNELS = 64,
	SCRIPT_SHOWN_WORD = 31,
	SCRIPT_SHOWN = 48
};

struct script_owner {
	char name[SCRIPT_NAME];
	struct sgpu_key key;
};

/* What an owner has of a channel with a key. */
struct script_channel {
	struct sgpu_session *session;
};

struct script {
	const char *name; /* of the script, for messages */
	unsigned line;
	char *words[SCRIPT_WORDS];
	int count, at; /* words; the next one to be read */
	struct sgpu_device *device;
	struct sgpu_pager pager;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct script_owner owners[SCRIPT_OWNERS];
	int owner_count;
	struct script_channel channels[SCRIPT_CHANNELS];
	struct sgpu_reply reply; /* of the last command */
	bool has_reply;
	uint32_t pages[SCRIPT_WORDS];
	unsigned unexpected; /* lines on which `expect` was disappointed */
};

/* Carries out one line. Errors: SGPU_EINVALID (a fault of the script, told with its line), or of
 * the device. A refusal is no error: it is printed. */
SGPU_MUST_CHECK int script_line(struct script *script, char *line, struct sgpu_error *error);
void script_end(struct script *script);

/* ---- words: each takes the next one ---- */
SGPU_MUST_CHECK int script_number(struct script *script, const char *what, uint64_t max,
				  uint64_t *value, struct sgpu_error *error);
SGPU_MUST_CHECK int script_frame(struct script *script, const char *what, uint32_t *frame,
				 struct sgpu_error *error);
/* Whether the next word is this one; then it is taken. */
bool script_word(struct script *script, const char *word);
/* A word for a message: itself in quotes, or how long it is when it does not look like one of a
 * script. */
const char *script_shown(const char *word, char text[SCRIPT_SHOWN]);
SGPU_MUST_CHECK int script_fault(struct script *script, struct sgpu_error *error,
				 const char *format, ...) SGPU_PRINTF(3, 4);

/* ---- channel_print.c ---- */
/* What the last command came to, on standard output; with --json one object a line. */
void script_print(const struct script *script, const struct sgpu_command *command);
void script_print_frame(const struct script *script, uint32_t number,
			const struct sgpu_frame *frame);
/* "line 3: TEXT", for what is no command. */
void script_print_text(const struct script *script, const char *format, ...) SGPU_PRINTF(2, 3);

#endif
