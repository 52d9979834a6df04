/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the communicators and their operations in flight. Each communicator has a lock held for a few instructions; the
 * batch's lock may be taken under it, never the reverse. Clocks are read at the start and end of operations, not by
 * channels.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/marker/batch.h"
#include "bpf/marker/device_ops.h"

/* Handle: kind 56-63, communicator 44-55, operation 32-43, generation 0-31; of a call: captured 43, its number 0-42. */
enum handle_kind { HANDLE_COMM = 0xc1, HANDLE_OP = 0xc2, HANDLE_CHANNEL = 0xc3, HANDLE_CALL = 0xc4 };

#define COMM_SHIFT 44
#define OP_SHIFT 32
#define PLACE_MASK 0xfffu
#define CAPTURED_BIT (1ULL << 43)
#define NUMBER_MASK (CAPTURED_BIT - 1)
#define NO_OP UINT16_MAX

_Static_assert(DEVICE_COMMS_MAX <= PLACE_MASK + 1 && DEVICE_OPS_MAX <= PLACE_MASK + 1 && DEVICE_OPS_MAX < NO_OP,
	"places fit in handles");

struct device_op {
	uint32_t generation;	 /* odd while in use */
	uint16_t next, previous; /* in flight in order of start; next also links free ones */
	uint64_t seq, count, host_ns, start_ns, stop_ns;
	int32_t peer;
	uint16_t kind, flags, channels, started, done;
	bool late; /* was reported as open */
	char operation[32];
	char dtype[16];
};

struct device_comm {
	pthread_mutex_t lock;
	struct batch_comm comm_info; /* used by batch.h */
	uint32_t generation;	     /* odd while open */
	bool calls_known;	     /* the interface reports calls, and all were counted */
	bool calls_lost;
	uint64_t calls, launches; /* collectives since init */
	uint32_t parts;		  /* parts of the call being announced so far */
	uint16_t first, last;	  /* in flight, oldest first */
	uint16_t free;		  /* list of formerly used ones */
	uint16_t used;		  /* operations from here on are unused */
	struct device_op op[DEVICE_OPS_MAX];
};

static pthread_mutex_t comms_lock = PTHREAD_MUTEX_INITIALIZER; /* for open and close */
static struct device_comm *_Atomic comms[DEVICE_COMMS_MAX];
static _Atomic uint32_t in_flight; /* of all communicators */

static device_handle handle_of(enum handle_kind kind, unsigned comm, unsigned op, uint32_t generation)
{
	return (uint64_t)kind << 56 | (uint64_t)comm << COMM_SHIFT | (uint64_t)op << OP_SHIFT | generation;
}

static unsigned comm_place(device_handle handle)
{
	return handle >> COMM_SHIFT & PLACE_MASK;
}

/* NULL: no communicator was ever opened. */
static struct device_comm *comm_at(device_handle handle, enum handle_kind kind)
{
	unsigned place = comm_place(handle);

	if (handle >> 56 != (uint64_t)kind || place >= DEVICE_COMMS_MAX)
		return NULL;
	return atomic_load_explicit(&comms[place], memory_order_acquire);
}

/* Locks and returns the communicator if the handle is of its current generation. */
static struct device_comm *lock_comm(device_handle handle)
{
	struct device_comm *comm = comm_at(handle, HANDLE_COMM);

	if (!comm)
		return NULL;
	pthread_mutex_lock(&comm->lock);
	if (comm->generation == (uint32_t)handle && comm->generation & 1)
		return comm;
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

/* The operation in flight of that handle, and its communicator, locked; NULL: there is none. */
static struct device_op *lock_op(device_handle handle, enum handle_kind kind, struct device_comm **ret)
{
	struct device_comm *comm = comm_at(handle, kind);
	unsigned place = handle >> OP_SHIFT & PLACE_MASK;
	struct device_op *op;

	if (!comm || place >= DEVICE_OPS_MAX)
		return NULL;
	op = &comm->op[place];
	pthread_mutex_lock(&comm->lock);
	if (op->generation == (uint32_t)handle && op->generation & 1) {
		*ret = comm;
		return op;
	}
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

static void copy_name(char *dst, size_t size, const char *src)
{
	size_t n = 0;

	while (src && n + 1 < size && src[n]) {
		dst[n] = src[n];
		n++;
	}
	memset(dst + n, 0, size - n);
}

static struct device_op *take_op(struct device_comm *comm)
{
	struct device_op *op;

	if (comm->free != NO_OP) {
		op = &comm->op[comm->free];
		comm->free = op->next;
	} else if (comm->used < DEVICE_OPS_MAX) {
		op = &comm->op[comm->used++];
	} else {
		return NULL;
	}
	op->generation++;
	op->next = NO_OP;
	op->previous = comm->last;
	if (comm->last != NO_OP)
		comm->op[comm->last].next = (uint16_t)(op - comm->op);
	else
		comm->first = (uint16_t)(op - comm->op);
	comm->last = (uint16_t)(op - comm->op);
	return op;
}

static void release_op(struct device_comm *comm, struct device_op *op)
{
	if (op->previous != NO_OP)
		comm->op[op->previous].next = op->next;
	else
		comm->first = op->next;
	if (op->next != NO_OP)
		comm->op[op->next].previous = op->previous;
	else
		comm->last = op->previous;
	op->generation++;
	op->next = comm->free;
	comm->free = (uint16_t)(op - comm->op);
}

static struct rt_marker_record record_of(const struct device_comm *comm, const struct device_op *op, uint64_t now_ns)
{
	struct rt_marker_record record = {
		.kind = op->kind,
		.flags = op->flags,
		.size_bytes = sizeof(record),
		.identity = comm->comm_info.record.identity,
		.seq = op->seq,
		.count = op->count,
		.host_ns = op->host_ns,
		.device_start_ns = op->start_ns,
		.device_stop_ns = op->stop_ns,
		.host_stop_ns = now_ns,
		.member = comm->comm_info.record.member,
		.members = comm->comm_info.record.members,
		.peer = op->peer,
		.channels = op->channels,
		.channels_done = op->done,
	};

	_Static_assert(sizeof(op->operation) <= sizeof(record.text) && sizeof(op->dtype) == sizeof(record.dtype), "");
	memcpy(record.text, op->operation, sizeof(op->operation));
	memcpy(record.dtype, op->dtype, sizeof(op->dtype));
	if (op->channels == 0 || op->done < op->channels)
		record.flags |= RT_MARKER_INCOMPLETE;
	return record;
}

/* Ends an operation; unlocks the communicator. */
static void device_ops_finish(struct device_comm *comm, struct device_op *op)
{
	uint64_t now_ns = batch_now_ns();
	struct rt_marker_record record = record_of(comm, op, now_ns);
	bool quiet;

	release_op(comm, op);
	pthread_mutex_unlock(&comm->lock);
	quiet = atomic_fetch_sub_explicit(&in_flight, 1, memory_order_relaxed) == 1;
	batch_put(&comm->comm_info, &record, now_ns, quiet);
}

/*
 * Checks the oldest in flight: reports it once if late, ends it if given up. One per start bounds the cost. Unlocks
 * the communicator.
 */
static void device_ops_check_first(struct device_comm *comm, uint64_t now_ns)
{
	struct device_op *op = comm->first == NO_OP ? NULL : &comm->op[comm->first];
	struct rt_marker_record record;

	if (op && now_ns - op->host_ns > DEVICE_GIVE_UP_NS && now_ns > op->host_ns && op->late) {
		device_ops_finish(comm, op);
		return;
	}
	if (!op || op->late || now_ns <= op->host_ns || now_ns - op->host_ns <= DEVICE_LATE_NS) {
		pthread_mutex_unlock(&comm->lock);
		batch_poll(now_ns);
		return;
	}
	op->late = true;
	record = record_of(comm, op, now_ns);
	record.kind = RT_MARKER_OPEN;
	pthread_mutex_unlock(&comm->lock);
	batch_put(&comm->comm_info, &record, now_ns, false);
}

static struct device_comm *comm_new(unsigned place)
{
	struct device_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	pthread_mutex_init(&comm->lock, NULL);
	comm->first = comm->last = comm->free = NO_OP;
	atomic_store_explicit(&comms[place], comm, memory_order_release);
	return comm;
}

static void open_at(struct device_comm *comm, const struct device_comm_info *info)
{
	struct rt_marker_comm record = {
		.flags = info->device,
		.identity = info->identity,
		.nodes = info->nodes,
		.interface = info->interface,
		.init_host_ns = batch_now_ns(),
		.member = info->member,
		.members = info->members,
	};

	copy_name(record.name, sizeof(record.name), info->name);
	batch_comm_set(&comm->comm_info, &record);
	comm->generation++;
	comm->calls_known = comm->calls_lost = false;
	comm->calls = comm->launches = 0;
	comm->parts = 0;
}

device_handle device_comm_open(const struct device_comm_info *info)
{
	struct device_comm *comm = NULL;
	device_handle handle = 0;
	unsigned place;

	pthread_mutex_lock(&comms_lock);
	for (place = 0; place < DEVICE_COMMS_MAX; place++) {
		comm = atomic_load_explicit(&comms[place], memory_order_relaxed);
		if (!comm || !(comm->generation & 1))
			break;
	}
	if (place < DEVICE_COMMS_MAX && !comm)
		comm = comm_new(place);
	if (place < DEVICE_COMMS_MAX && comm) {
		pthread_mutex_lock(&comm->lock);
		open_at(comm, info);
		handle = handle_of(HANDLE_COMM, place, 0, comm->generation);
		pthread_mutex_unlock(&comm->lock);
	}
	pthread_mutex_unlock(&comms_lock);
	if (!handle)
		batch_count_lost();
	return handle;
}

void device_comm_identify(device_handle handle, uint64_t identity, uint32_t member, const char *name)
{
	struct device_comm *comm = lock_comm(handle);

	if (!comm)
		return;
	if (comm->comm_info.record.identity == 0) {
		struct rt_marker_comm record = comm->comm_info.record;

		record.identity = identity;
		record.member = member;
		copy_name(record.name, sizeof(record.name), name);
		batch_comm_set(&comm->comm_info, &record);
	}
	pthread_mutex_unlock(&comm->lock);
}

void device_comm_close(device_handle handle)
{
	struct device_comm *comm = lock_comm(handle);

	while (comm && comm->first != NO_OP) {
		device_ops_finish(comm, &comm->op[comm->first]);
		comm = lock_comm(handle);
	}
	if (comm)
		pthread_mutex_unlock(&comm->lock);
	batch_flush(batch_now_ns());
	pthread_mutex_lock(&comms_lock);
	comm = lock_comm(handle);
	if (comm) {
		comm->generation++;
		pthread_mutex_unlock(&comm->lock);
	}
	pthread_mutex_unlock(&comms_lock);
}

static device_handle call_handle(
	const struct device_comm *comm, device_handle handle, uint64_t number, bool is_captured)
{
	return (uint64_t)HANDLE_CALL << 56 | (uint64_t)comm_place(handle) << COMM_SHIFT |
	       (is_captured ? CAPTURED_BIT : 0) | (comm->calls_lost ? 0 : number & NUMBER_MASK);
}

device_handle device_call(device_handle handle, bool is_collective, bool is_captured)
{
	struct device_comm *comm = lock_comm(handle);
	device_handle call;

	if (!comm)
		return 0;
	if (is_collective) {
		comm->calls_known = true;
		comm->calls_lost |= comm->parts != 0; /* that call was announced partially */
		comm->calls++;
	}
	call = call_handle(comm, handle, is_collective ? comm->calls : 0, is_captured);
	pthread_mutex_unlock(&comm->lock);
	return call;
}

device_handle device_call_all_to_all(device_handle handle, bool is_captured)
{
	struct device_comm *comm = lock_comm(handle);
	device_handle call;

	if (!comm)
		return 0;
	comm->calls_known = true;
	if (comm->parts++ == 0)
		comm->calls++;
	if (comm->parts >= 2 * (uint64_t)comm->comm_info.record.members)
		comm->parts = 0;
	call = call_handle(comm, handle, comm->calls, is_captured);
	pthread_mutex_unlock(&comm->lock);
	return call;
}

void device_call_uncounted(device_handle handle)
{
	struct device_comm *comm = lock_comm(handle);

	if (!comm)
		return;
	comm->calls_known = comm->calls_lost = true;
	pthread_mutex_unlock(&comm->lock);
}

static void number_op(
	struct device_comm *comm, device_handle comm_handle, const struct device_op_info *info, struct device_op *op)
{
	device_handle call = info->call;
	bool is_called = call >> 56 == HANDLE_CALL && comm_place(call) == comm_place(comm_handle);

	op->seq = 0;
	op->flags = is_called && call & CAPTURED_BIT ? RT_MARKER_CAPTURED : 0;
	if (info->kind != RT_MARKER_COLL)
		return;
	comm->launches++;
	if (is_called) {
		op->seq = call & NUMBER_MASK;
	} else if (!comm->calls_known) {
		op->seq = comm->launches;
		op->flags |= RT_MARKER_BY_LAUNCH;
	}
}

device_handle device_op_start(device_handle comm_handle, const struct device_op_info *info)
{
	struct device_comm *comm = lock_comm(comm_handle);
	uint64_t now_ns = batch_now_ns();
	struct device_op *op;
	device_handle handle;

	if (!comm)
		return 0;
	op = take_op(comm);
	if (!op) {
		comm->launches += info->kind == RT_MARKER_COLL;
		batch_count_lost();
		device_ops_check_first(comm, now_ns);
		return 0;
	}
	number_op(comm, comm_handle, info, op);
	op->count = info->count;
	op->host_ns = now_ns;
	op->start_ns = op->stop_ns = 0;
	op->peer = info->peer;
	op->kind = info->kind;
	op->channels = info->channels;
	op->started = op->done = 0;
	op->late = false;
	copy_name(op->operation, sizeof(op->operation), info->operation);
	copy_name(op->dtype, sizeof(op->dtype), info->dtype);
	handle = handle_of(HANDLE_OP, comm_place(comm_handle), (unsigned)(op - comm->op), op->generation);
	atomic_fetch_add_explicit(&in_flight, 1, memory_order_relaxed);
	device_ops_check_first(comm, now_ns);
	return handle;
}

void device_op_stop(device_handle handle)
{
	struct device_comm *comm;
	struct device_op *op = lock_op(handle, HANDLE_OP, &comm);

	if (!op)
		return;
	if (op->channels == 0)
		device_ops_finish(comm, op);
	else
		pthread_mutex_unlock(&comm->lock);
}

device_handle device_channel_start(device_handle handle, uint64_t time_ns)
{
	struct device_comm *comm;
	struct device_op *op = lock_op(handle, HANDLE_OP, &comm);

	if (!op)
		return 0;
	if (time_ns != 0 && (op->start_ns == 0 || time_ns < op->start_ns))
		op->start_ns = time_ns;
	if (op->started < UINT16_MAX)
		op->started++;
	pthread_mutex_unlock(&comm->lock);
	return (handle & ~(0xffULL << 56)) | (uint64_t)HANDLE_CHANNEL << 56;
}

void device_channel_stop(device_handle handle, uint64_t time_ns)
{
	struct device_comm *comm;
	struct device_op *op = lock_op(handle, HANDLE_CHANNEL, &comm);

	if (!op)
		return;
	if (time_ns > op->stop_ns)
		op->stop_ns = time_ns;
	if (op->done < op->started)
		op->done++;
	if (op->channels != 0 && op->done >= op->channels)
		device_ops_finish(comm, op);
	else
		pthread_mutex_unlock(&comm->lock);
}
