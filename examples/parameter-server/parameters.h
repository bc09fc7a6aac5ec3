/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter server: it keeps the weights of a model that many workers train, and they send
 * changes and take fresh values. After the one in the paper on SGXIO.
 *
 * A request is its number of items, as 8 bytes, and the items; the answer has a weight for each, as
 * it is after the change. A change of 0 reads. A request of no items asks for the sum of all
 * weights. Both sides are of the same byte order. A real server in an enclave would have them
 * sealed.
 */
#ifndef PARAMETERS_H
#define PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/ring.h>

enum {
	PARAMETERS_FEATURES = 1 << 17,
	PARAMETERS_SLOTS = 1 << 18, /* of 16 bytes: 4 MiB, half of them used */
	PARAMETERS_ITEMS_MAX = 256,
	PARAMETERS_CONNECTIONS_MAX = 64,
};

struct parameters_item {
	uint64_t key;
	double change;
};

enum { PARAMETERS_REQUEST_MAX = 8 + PARAMETERS_ITEMS_MAX * sizeof(struct parameters_item) };

/* The key of a feature, from 0 to PARAMETERS_FEATURES - 1. Never 0. */
uint64_t parameters_key(uint64_t feature);

/* ---- the model: a hash table ---- */
struct parameters_model {
	struct parameters_slot {
		uint64_t key; /* 0: free */
		double weight;
	} slots[PARAMETERS_SLOTS];
};

/* All features with the weight 0; NULL: no memory. Freed with free(). */
struct parameters_model *parameters_model_create(void);
/* Adds to a weight and returns it; of an unknown key NaN. */
double parameters_update(struct parameters_model *model, uint64_t key, double change);
double parameters_sum(const struct parameters_model *model);

/* ---- the server ---- */
struct parameters_service {
	struct sgpu_rpc *rpc; /* the only way to the sockets: the rest could be in an enclave */
	struct parameters_model *model;
	const int *sockets; /* connected */
	size_t count;
	/* To measure the server alone: */
	size_t read_max;       /* bytes of a connection that are read at once; 0: what is there */
	uint64_t requests_max; /* ends after so many, at least; 0: when clients have closed all */
};

/* Serves on this thread. A client that sends what is no request loses its connection. *requests:
 * how many were answered. */
int parameters_serve(const struct parameters_service *service, uint64_t *requests,
		     struct sgpu_error *error);

/* ---- sockets, over the loopback interface ---- */
int parameters_listen(uint16_t *port, int *listener, struct sgpu_error *error);
int parameters_accept(int listener, int *socket, struct sgpu_error *error);
int parameters_connect(uint16_t port, int *socket, struct sgpu_error *error);

/* ---- clients ---- */
struct parameters_load {
	unsigned threads; /* of clients; connections are dealt out to them */
	unsigned items;	  /* of a request, 1 to PARAMETERS_ITEMS_MAX */
	uint64_t requests;
	double rate; /* requests a second; 0: the next when the last is answered */
	uint64_t seed;
};

struct parameters_result {
	uint64_t ns;	/* from the first request to the last answer */
	double changes; /* their sum: small whole numbers, so that it is exact */
	/* From the moment at which a request was due to its answer. */
	uint64_t p50_ns, p99_ns;
};

/* A request with items for random features, half of which are changed. Returns its size; adds the
 * changes, small whole numbers, to *changes. */
size_t parameters_make_request(unsigned char *request, uint64_t items, uint64_t *seed,
			       double *changes);

/* Sends requests with items for random features, half of which are changed. Errors: SGPU_ESYSTEM,
 * SGPU_ENOMEM, SGPU_EUSAGE; SGPU_EDIFFERS: an answer that cannot be. */
int parameters_send_load(const int *sockets, size_t count, const struct parameters_load *load,
			 struct parameters_result *result, struct sgpu_error *error);
/* Asks for the sum of all weights. */
int parameters_ask_sum(int socket, double *sum, struct sgpu_error *error);

#endif
