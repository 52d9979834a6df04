/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AR trace (data/README.md: the worker of stage 0 and data-parallel rank 0 is slow) written as a store and as files
 * of sysTrace: `tracectl analyze` names that worker alone, or says that it does not judge.
 */
#include "analyzers/analyze/analysis.h"
#include "tests/traces/trace.h"
#include "tests/unit/systrace_script.h"

#define STEPS 44
#define WORKERS 16

enum put_what { PUT_OP, PUT_STAGE, PUT_STEP };

/* A row of the store, or of the files; in the order of ends. */
struct put {
	const struct trace_op *op; /* NULL: a step */
	enum put_what what;
	uint32_t worker, step;
	uint64_t start_ns, end_ns;
};

static struct {
	struct trace *trace;
	struct put *put;
	size_t puts;
	uint64_t begin_ns;
} ar;

static uint64_t ar_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

static void ar_add(const struct put *put)
{
	ar.put[ar.puts++] = *put;
}

static void ar_add_step(uint32_t step, uint64_t begin_ns, uint64_t *ret_end_ns)
{
	uint64_t first_ns[WORKERS], last_ns[WORKERS] = {0};

	memset(first_ns, 0xff, sizeof(first_ns));
	for (size_t i = ar.trace->first[step]; i < ar.trace->first[step + 1]; i++) {
		const struct trace_op *op = &ar.trace->op[i];
		struct put put = {.op = op,
			.what = trace_members(ar.trace, op) > 1 ? PUT_OP : PUT_STAGE,
			.worker = trace_worker(ar.trace, op),
			.step = step,
			.start_ns = begin_ns + ar_ns(op->start_s),
			.end_ns = begin_ns + ar_ns(op->start_s + op->duration_s)};

		ar_add(&put);
		if (put.start_ns < first_ns[put.worker])
			first_ns[put.worker] = put.start_ns;
		if (put.end_ns > last_ns[put.worker])
			last_ns[put.worker] = put.end_ns;
	}
	for (uint32_t worker = 0; worker < WORKERS; worker++) {
		ar_add(&(struct put){.what = PUT_STEP,
			.worker = worker,
			.step = step,
			.start_ns = first_ns[worker],
			.end_ns = last_ns[worker]});
		if (last_ns[worker] > *ret_end_ns)
			*ret_end_ns = last_ns[worker];
	}
}

static int ar_by_end(const void *a, const void *b)
{
	const struct put *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (x->what > y->what) - (x->what < y->what);
}

static int ar_setup(void **state)
{
	uint64_t end_ns;

	if (store_setup(state) < 0)
		return -1;
	ar.trace = trace_read(TRACES_DATA "/trace-AR.csv.gz");
	assert_non_null(ar.trace);
	assert_int_equal(ar.trace->steps, STEPS);
	assert_int_equal(ar.trace->dps * ar.trace->stages, WORKERS);
	ar.put = calloc(ar.trace->ops + (size_t)STEPS * WORKERS, sizeof(*ar.put));
	assert_non_null(ar.put);
	ar.puts = 0;
	end_ns = ar.begin_ns = realtime_ns() - 7200 * NSEC_PER_SEC;
	for (uint32_t step = 0; step < STEPS; step++)
		ar_add_step(step, end_ns, &end_ns);
	assert_true(end_ns < realtime_ns());
	qsort(ar.put, ar.puts, sizeof(*ar.put), ar_by_end);
	return 0;
}

static int ar_teardown(void **state)
{
	ar.trace = trace_free(ar.trace);
	free(ar.put);
	return store_teardown(state);
}

/* Its communicator, with this worker's number in it. */
static uint32_t ar_comm(const struct trace_op *op, const char **ret_kind, char *ret_name, size_t size)
{
	switch (trace_type_kind(op->type)) {
	case TRACE_KIND_DATA:
		*ret_kind = "data";
		snprintf(ret_name, size, "data%u", op->stage);
		return op->dp;
	case TRACE_KIND_P2P:
		*ret_kind = "pipeline";
		snprintf(ret_name, size, "pipeline%u", op->dp);
		return op->stage;
	case TRACE_KIND_EDGES:
		*ret_kind = "embedding";
		snprintf(ret_name, size, "embedding%u", op->dp);
		return op->stage > 0;
	default:
		*ret_kind = "";
		snprintf(ret_name, size, "world");
		return trace_worker(ar.trace, op);
	}
}

/* NCCL's word. */
static const char *ar_op(const struct trace_op *op)
{
	switch (op->type) {
	case TRACE_FORWARD_SEND:
	case TRACE_BACKWARD_SEND:
		return "Send";
	case TRACE_FORWARD_RECV:
	case TRACE_BACKWARD_RECV:
		return "Recv";
	case TRACE_GRADIENTS:
		return "ReduceScatter";
	case TRACE_PARAMETERS:
		return "AllGather";
	default:
		return "AllReduce";
	}
}

/* Stage of the other side; a pipeline of chunks goes on from the last stage to the first. */
static uint32_t ar_peer(const struct trace_op *op)
{
	bool next = op->type == TRACE_FORWARD_SEND || op->type == TRACE_BACKWARD_RECV;

	return (op->stage + (next ? 1 : ar.trace->stages - 1)) % ar.trace->stages;
}

static void ar_put_comms(struct store *store)
{
	bool there[WORKERS][TRACE_TYPE_MAX] = {0};
	int64_t key = 0;

	for (size_t i = 0; i < ar.puts; i++) {
		const struct put *put = &ar.put[i];
		const char *kind;
		char name[32];
		uint32_t member;

		if (put->what != PUT_OP || there[put->worker][put->op->type])
			continue;
		there[put->worker][put->op->type] = true;
		member = ar_comm(put->op, &kind, name, sizeof(name));
		store_put_communicators(
			store, &(struct row_communicators){.communicator = field_text(name),
				       .rank = field_int(put->worker),
				       .member = field_int(member),
				       .members = field_int(trace_type_kind(put->op->type) == TRACE_KIND_P2P
								    ? ar.trace->stages
								    : trace_members(ar.trace, put->op)),
				       .family = field_text("nccl"),
				       .kind = field_text_if(kind),
				       .instance = field_int(put->worker + 1),
				       .communicator_key = field_int(++key)});
	}
}

static void ar_put_row(struct store *store, const struct put *put)
{
	const struct trace_op *op = put->op;
	const char *kind;
	char name[32];

	if (put->what == PUT_STEP) {
		store_put_steps(store, &(struct row_steps){.rank = field_int(put->worker),
					       .step = field_int(put->step + 1),
					       .start_ns = field_time((int64_t)put->start_ns),
					       .duration_ns = field_duration(put->end_ns - put->start_ns),
					       .kind = field_text("train"),
					       .instance = field_int(put->worker + 1)});
		return;
	}
	if (put->what == PUT_STAGE)
		return; /* the store of a training with L1 alone */
	(void)ar_comm(op, &kind, name, sizeof(name));
	store_put_collectives(store,
		&(struct row_collectives){.rank = field_int(put->worker),
			.step = field_int(put->step + 1),
			.communicator = field_text(name),
			.seq = field_int(((int64_t)put->step * TRACE_TYPE_MAX + (op->type == TRACE_PARAMETERS)) * 256 +
					 op->seq + 1),
			.op = field_text(ar_op(op)),
			.bytes = field_int(1 << 20),
			.host_start_ns = field_time((int64_t)put->start_ns),
			.host_duration_ns = field_duration(1000),
			.device_start_ns = field_time((int64_t)put->start_ns),
			.device_duration_ns = field_duration(put->end_ns - put->start_ns),
			.tier = field_text("device"),
			.seq_from = field_text("init"),
			.peer = field_int_if(trace_type_kind(op->type) == TRACE_KIND_P2P, ar_peer(op)),
			.family = field_text("nccl"),
			.instance = field_int(put->worker + 1)});
}

static void ar_write_store(void)
{
	struct store *store = off_store("store");

	for (uint32_t worker = 0; worker < WORKERS; worker++)
		store_put_ranks(store, &(struct row_ranks){.rank = field_int(worker),
					       .world_size = field_int(WORKERS),
					       .job = field_text("AR"),
					       .host = field_text("node-a"),
					       .pid = field_int(100 + worker),
					       .start_time_ns = field_time((int64_t)ar.begin_ns),
					       .first_seen_ns = field_time((int64_t)ar.begin_ns),
					       .last_seen_ns = field_time((int64_t)ar.begin_ns),
					       .ended = field_int(0),
					       .instance = field_int(worker + 1)});
	ar_put_comms(store);
	for (size_t i = 0; i < ar.puts; i++)
		ar_put_row(store, &ar.put[i]);
	assert_int_equal(store_flush(store, realtime_ns()), 0);
	store_close(store);
}

static void ar_write_timeline(uint32_t worker)
{
	FILE *file = create("systrace/timeline/node-a--%05u--%u.timeline", worker, 100 + worker);

	for (size_t i = 0; i < ar.puts; i++) {
		const struct put *put = &ar.put[i];

		if (put->worker != worker || put->what == PUT_OP)
			continue;
		if (put->what == PUT_STEP)
			put_stage_of(file, "torch.utils.data.dataloader@_BaseDataLoaderIter@__next__", put->step + 1,
				put->start_ns, put->start_ns + OFF_MS);
		else if (put->op->type == TRACE_FORWARD_COMPUTE)
			put_stage_of(file, "megatron.core.pipeline_parallel@schedules@forward_step", put->op->seq,
				put->start_ns, put->end_ns);
		else if (put->op->type == TRACE_BACKWARD_COMPUTE)
			put_stage_of(file, "megatron.core.pipeline_parallel@schedules@backward_step", put->op->seq,
				put->start_ns, put->end_ns);
	}
	put_number(file, 2, worker);
	put_bytes(file, 4, "AR", 2);
	fclose(file);
}

static void ar_write_csv(uint32_t worker)
{
	FILE *file = create("systrace/mspti/hccl_activity-10.0.0.1-.%u.csv", worker);
	unsigned pid = 100 + worker;
	unsigned long long id = 0;

	fputs(HEADER, file);
	for (size_t i = 0; i < ar.puts; i++) {
		const struct put *put = &ar.put[i];
		unsigned long long start = put->start_ns, end = put->end_ns;
		const char *kind, *op;
		char name[32];

		if (put->worker != worker || put->what != PUT_OP)
			continue;
		op = strcmp(ar_op(put->op), "Recv") == 0 ? "Receive" : ar_op(put->op);
		(void)ar_comm(put->op, &kind, name, sizeof(name));
		id++;
		fprintf(file, "2,%llu,1,comm:Hccl%s!%s!fp16!524288,0,%llu,%u,7,%u,7\n", id, op, name, start - 900, pid,
			pid);
		fprintf(file, "16,%llu,1,comm:Hccl%s!%s!fp16!524288,1,%llu,0,2,0,2\n", id, op, name, start);
		fprintf(file, "4,%llu,1,,0,%llu,%u,7,%u,7\n32,%llu,1,,1,%llu,0,2,0,2\n", id, start - 100, pid, pid, id,
			end);
	}
	fclose(file);
}

static char said[1024];
static unsigned said_count;

static void keep_warning(void *arg, const char *sentence)
{
	snprintf(said, sizeof(said), "%s", sentence);
	said_count++;
}

static json_t *ar_judge(struct analysis_options *how, struct analysis *analysis)
{
	json_t *rows;

	said_count = 0;
	how->until_ns = realtime_ns() + NSEC_PER_SEC;
	how->warning = keep_warning;
	assert_int_equal(analysis_run(how, analysis), 0);
	rows = analysis_rows(analysis, &(struct findings_filter){.all = false});
	assert_non_null(rows);
	analysis_free(analysis);
	return rows;
}

/* Findings of each rank. */
static void count_slow(const json_t *rows, unsigned *ret_slow)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const json_t *rank = json_object_get(row, "rank");

		if (!json_is_integer(rank))
			continue;
		assert_in_range(json_integer_value(rank), 0, WORKERS - 1);
		ret_slow[json_integer_value(rank)]++;
	}
}

TEST_WITH(a_store_names_the_slow_worker_alone, ar_setup, ar_teardown)
{
	char folder[PATH_MAX], *folders[1] = {folder};
	struct analysis_options how = {.folder = folders, .folders = 1};
	unsigned slow[WORKERS] = {0};
	struct analysis analysis;
	json_t *rows;

	ar_write_store();
	snprintf(folder, sizeof(folder), "%s/store", dir);
	rows = ar_judge(&how, &analysis);
	count_slow(rows, slow);
	json_decref(rows);
	assert_false(analysis.failed);
	assert_int_equal(analysis.align.frames, STEPS);
	assert_true(slow[0] > 0);
	for (uint32_t worker = 1; worker < WORKERS; worker++)
		assert_int_equal(slow[worker], 0);
}

TEST_WITH(files_of_systrace_are_refused, ar_setup, ar_teardown)
{
	char folder[PATH_MAX];
	struct analysis_options how = {.systrace = folder};
	struct analysis analysis;
	json_t *rows;

	sh("mkdir -p '%s/systrace/timeline'", dir);
	sh("mkdir -p '%s/systrace/mspti'", dir);
	for (uint32_t worker = 0; worker < WORKERS; worker++) {
		ar_write_timeline(worker);
		ar_write_csv(worker);
	}
	snprintf(folder, sizeof(folder), "%s/systrace", dir);
	rows = ar_judge(&how, &analysis);
	printf("%s\n", said);
	assert_int_equal(json_array_size(rows), 0);
	json_decref(rows);
	assert_int_equal(said_count, 1);
	assert_non_null(
		strstr(said, "job \"AR\" is a pipeline job (16 ranks, 67584 sends and receives) and is not judged"));
	assert_true(analysis.failed);
	assert_int_equal(analysis.jobs_refused, 1);
	assert_int_equal(analysis.watched.ranks, 0);
	assert_int_equal(analysis.watched.first_ns, 0);
	assert_int_equal(analysis.align.frames, 0);
}

TEST_MAIN(NULL, NULL)
