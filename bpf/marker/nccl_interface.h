/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler plugin interface, versions 1 to 6, as far as used. Layouts are NCCL's
 * (src/include/plugin/profiler/profiler_v1.h to _v6.h of NCCL 2.30); unused members are padding.
 *
 * Changes by version: 1 (NCCL 2.23) operations as numbers; 2 (2.24) names as texts; 3 (2.26) no traffic bytes, kernel
 * channels without times; 4 (2.27) init describes the communicator, channels report GPU times; 5 (2.28) a wider type,
 * calls (API events) with their capture state, parents are calls; 6 (2.29) copy-engine collectives.
 */
#ifndef RANKTRACE_MARKER_NCCL_INTERFACE_H
#define RANKTRACE_MARKER_NCCL_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

enum nccl_event {
	NCCL_EVENT_COLL = 1 << 1,
	NCCL_EVENT_P2P = 1 << 2,
	NCCL_EVENT_KERNEL_CHANNEL = 1 << 6,
	NCCL_EVENT_COLL_CALL = 1 << 9,
	NCCL_EVENT_P2P_CALL = 1 << 10,
	NCCL_EVENT_COPY_COLL = 1 << 12,
};

#define NCCL_STATE_CHANNEL_STOP 22

/* Common beginnings: the type has one byte up to version 4, 8 from version 5; the parent follows at offset 8. */
struct nccl_head_v1 {
	uint8_t type;
	void *parent;
	int rank;
};

struct nccl_head_v5 {
	uint64_t type;
	void *parent;
	int rank;
};

struct nccl_coll_v1 {
	struct nccl_head_v1 head;
	struct {
		const char *name;
		uint64_t hash;
		uint64_t seq;
		uint8_t func;
		const void *send;
		void *receive;
		size_t count;
		int root;
		uint8_t dtype;
	} coll __attribute__((aligned(8)));
};

struct nccl_p2p_v1 {
	struct nccl_head_v1 head;
	struct {
		const char *name;
		uint64_t hash;
		uint8_t func;
		void *buffer;
		uint8_t dtype;
		size_t count;
		int peer;
	} p2p __attribute__((aligned(8)));
};

/* Versions 2 and 3 differ only after these members. */
struct nccl_coll_v2 {
	struct nccl_head_v1 head;
	struct {
		const char *name;
		uint64_t hash;
		uint64_t seq;
		const char *func;
		const void *send;
		void *receive;
		size_t count;
		int root;
		const char *dtype;
	} coll __attribute__((aligned(8)));
};

struct nccl_p2p_v2 {
	struct nccl_head_v1 head;
	struct {
		const char *name;
		uint64_t hash;
		const char *func;
		void *buffer;
		const char *dtype;
		size_t count;
		int peer;
	} p2p __attribute__((aligned(8)));
};

/* From version 4 the parts are equal; the head differs. */
struct nccl_coll {
	uint64_t seq;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *dtype;
	uint8_t channels;
};

struct nccl_p2p {
	const char *func;
	void *buffer;
	const char *dtype;
	size_t count;
	int peer;
	uint8_t channels;
};

struct nccl_channel {
	uint8_t channel;
	uint64_t time_ns;
};

struct nccl_coll_call {
	const char *func;
	size_t count;
	const char *dtype;
	int root;
	void *stream;
	uint8_t captured; /* a bool */
};

struct nccl_p2p_call {
	const char *func;
	size_t count;
	const char *dtype;
	void *stream;
	uint8_t captured; /* a bool */
};

struct nccl_copy_coll {
	uint64_t seq;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *dtype;
};

struct nccl_event_v4 {
	struct nccl_head_v1 head;
	union {
		struct nccl_coll coll;
		struct nccl_p2p p2p;
		struct nccl_channel channel;
	};
};

struct nccl_event_v5 {
	struct nccl_head_v5 head;
	union {
		struct nccl_coll coll;
		struct nccl_p2p p2p;
		struct nccl_channel channel;
		struct nccl_coll_call coll_call;
		struct nccl_p2p_call p2p_call;
		struct nccl_copy_coll copy_coll; /* from version 6 */
	};
};

union nccl_state_args {
	uint64_t channel_time_ns;
};

_Static_assert(sizeof(struct nccl_head_v1) == 24 && sizeof(struct nccl_head_v5) == 24, "the parts begin at 24");
_Static_assert(
	offsetof(struct nccl_coll_v1, coll) == 24 && offsetof(struct nccl_event_v5, coll) == 24, "offsets are NCCL's");
_Static_assert(
	offsetof(struct nccl_event_v4, coll.channels) == 80 && offsetof(struct nccl_event_v5, p2p.channels) == 60,
	"offsets are NCCL's");

/* Results are NCCL's: 0 is success. The logger is never called. */
typedef int (*nccl_start)(void *context, void **handle, const void *event);
typedef int (*nccl_stop)(void *handle);
typedef int (*nccl_record)(void *handle, int state, const union nccl_state_args *args);
typedef int (*nccl_finalize)(void *context);

struct nccl_profiler_v1 { /* also versions 2 and 3 */
	const char *name;
	int (*init)(void **context, int *event_mask);
	nccl_start start;
	nccl_stop stop;
	nccl_record record;
	nccl_finalize finalize;
};

struct nccl_profiler_v4 {
	const char *name;
	int (*init)(void **context, int *event_mask, const char *comm_name, uint64_t comm_hash, int nodes, int ranks,
		int rank, void *logger);
	nccl_start start;
	nccl_stop stop;
	nccl_record record;
	nccl_finalize finalize;
};

struct nccl_profiler_v5 { /* also version 6 */
	const char *name;
	int (*init)(void **context, uint64_t comm_id, int *event_mask, const char *comm_name, int nodes, int ranks,
		int rank, void *logger);
	nccl_start start;
	nccl_stop stop;
	nccl_record record;
	nccl_finalize finalize;
};

#endif
