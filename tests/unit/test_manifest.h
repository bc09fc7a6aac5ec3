/* SPDX-License-Identifier: Apache-2.0
 *
 * For the unit tests of the manifest: documents from macros, and what is expected of them.
 */
#ifndef TEST_MANIFEST_H
#define TEST_MANIFEST_H

#include "manifest/manifest.h"
#include "json_text.h"
#include "unit.h"

struct parsed {
	struct sgpu_manifest *manifest;
	struct sgpu_diagnostics diagnostics;
	int code;
};

/* Of JSON with ' for ". */
static inline void parse(struct parsed *p, const char *text, unsigned options)
{
	struct sgpu_error error = { 0 };
	char *json = json_text(text);

	memset(p, 0, sizeof(*p));
	p->code = sgpu_manifest_parse(json, strlen(json), options, &p->manifest, &p->diagnostics,
				      &error);
	sgpu_diagnostics_locate(&p->diagnostics, json, strlen(json));
	free(json);
}

static inline void done(struct parsed *p)
{
	sgpu_manifest_free(&p->manifest);
	sgpu_diagnostics_clear(&p->diagnostics);
}

static inline const struct sgpu_diagnostic *find(const struct parsed *p, const char *pointer,
						 const char *part)
{
	for (size_t i = 0; i < p->diagnostics.count; i++) {
		if (strcmp(p->diagnostics.list[i].pointer, pointer) == 0 &&
		    strstr(p->diagnostics.list[i].text, part)) {
			return &p->diagnostics.list[i];
		}
	}
	for (size_t i = 0; i < p->diagnostics.count; i++) {
		printf("# have %s: %s\n", p->diagnostics.list[i].pointer,
		       p->diagnostics.list[i].text);
	}
	printf("# want %s: %s\n", pointer, part);
	return NULL;
}

#define IN(id, more) "{'segment_id':'" id "','sensitivity_level':'LOW','direction':'INPUT'" more "}"
#define OUT(id, more) \
	"{'segment_id':'" id "','sensitivity_level':'LOW','direction':'OUTPUT'" more "}"
#define SEGMENT(id, level, direction, more)                                                       \
	"{'segment_id':'" id "','sensitivity_level':'" level "','direction':'" direction "'" more \
	"}"
#define OP(id, args, more) \
	"{'gpu_operation_id':'" id "','kernel':'k','arguments':{" args "}" more "}"
#define MANIFEST(segments, operations) \
	"{'version':1,'manifest_id':'m','segments':[" segments "],'operations':[" operations "]}"
/* a, that X makes b of; each may have more members. */
#define SMALL(in, out, op) MANIFEST(IN("a", in) "," OUT("b", out), OP("X", A_TO_B, op))
#define A_TO_B "'input':'a','output':'b'"

/* One diagnostic and no other. */
static inline void expect(const char *text, const char *pointer, const char *part, int line)
{
	struct parsed p;

	parse(&p, text, SGPU_MANIFEST_INSIDE);
	CHECK(p.code == SGPU_OK);
	if (!find(&p, pointer, part) || p.diagnostics.count != 1) {
		printf("# %s:%d: %zu diagnostics\n", __FILE__, line, p.diagnostics.count);
		unit_bad++;
	}
	done(&p);
}
#define EXPECT(text, pointer, part) expect(text, pointer, part, __LINE__)

static inline void accept(const char *text, int line)
{
	struct parsed p;

	parse(&p, text, SGPU_MANIFEST_INSIDE);
	if (p.code || p.diagnostics.count || !p.manifest || !p.manifest->order ||
	    !p.manifest->canonical) {
		printf("# %s:%d: not accepted\n", __FILE__, line);
		find(&p, "", "no diagnostic");
		unit_bad++;
	}
	done(&p);
}
#define ACCEPT(text) accept(text, __LINE__)
#define LINK(id, in, out, more) OP(id, "'input':'" in "','output':'" out "'", more)

#endif
