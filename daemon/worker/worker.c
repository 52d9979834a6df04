/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of worker.h: a queue of requests and a list of processes. A process is idle, busy with one request,
 * or killed; a killed one is kept until the kernel reports its end. One that is being started is busy already: its
 * request waits in the socket.
 */
#include "daemon/worker/worker.h"
#include "analyzers/base/array.h"
#include "daemon/base/lag.h"
#include "daemon/base/log.h"
#include "daemon/base/procfs.h"
#include "daemon/base/spawn.h"
#include "daemon/base/thread.h"
#include "daemon/worker/worker_wire.h"

#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MESSAGES_MAX 64		       /* read at a time, so that no worker occupies the loop */
#define IDLE_NS (60 * NSEC_PER_SEC)    /* a process without requests ends: a start costs 15 ms */
#define READY_NS (100 * NSEC_PER_MSEC) /* between checks of a process that waits for a CPU past its limit of time */
#define ABANDON_NS NSEC_PER_SEC /* from a kill to the first check of what keeps the process, and between checks */
#define STUCK_CPU_NS (500 * NSEC_PER_MSEC) /* after a kill: more than the end of a process takes, for its memory */
#define REUSES_MAX 1000			   /* requests of one process: bounds what leaks */
#define EXIT_NO_LIBRARIES 127		   /* of the dynamic loader, before main() */

struct request {
	struct request *next;
	uint64_t id;
	const struct worker_kind *kind;
	uint32_t owner;
	struct worker_request_message *message;
	size_t message_bytes;
	int fd[WORKER_FDS_MAX + 1]; /* the bytes where the message has none, then the caller's */
	unsigned fds;
	worker_done done; /* NULL: cancelled */
	void *arg;
};

enum process_state { PROCESS_IDLE, PROCESS_BUSY, PROCESS_KILLED, PROCESS_ABANDONED };

struct process {
	struct process *next;
	struct workers *workers;
	const struct worker_kind *kind;
	enum process_state state;
	uint32_t owner; /* of the last request */
	unsigned served;
	struct spawner_job *starting; /* NULL: it has started; pid and pid_fd are valid */
	pid_t pid;
	int pid_fd, socket_fd;
	struct event *on_socket, *on_end, *on_time;
	struct request *request; /* NULL unless busy */
	uint64_t started_ns;	 /* it was handed over */
	uint64_t cpu_ns;	 /* used until then, or until the kill */
	uint8_t *data;
	size_t size_bytes, capacity;
	int fd[WORKER_FDS_MAX];
	unsigned fds;
};

struct workers {
	struct event_base *base;
	struct spawner *spawner;
	struct event *on_queue; /* starts what waits, outside of callers */
	struct request *first, **last;
	struct process *process;
	uint64_t last_id;
	uint64_t cpu_ns; /* the most that workers_cpu_ns() has said */
	struct workers_status status;
	bool start_logged;
};

const char *worker_end_words(enum worker_end end)
{
	static const char *const words[WORKER_ENDS] = {
		[WORKER_ANSWERED] = "answered",
		[WORKER_TIMED_OUT] = "took too long",
		[WORKER_TOO_LONG] = "answered too much",
		[WORKER_DIED] = "reached a limit or crashed",
		[WORKER_UNSTARTED] = "did not start",
		[WORKER_BARRED] = "is not started: earlier ones of this user cannot be killed",
	};

	return words[end];
}

void worker_program(const char *name, char *ret, size_t size)
{
	const char *set = getenv("RANKTRACE_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;

	if (set && *set) {
		snprintf(ret, size, "%s/%s", set, name);
		return;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	if (strrchr(self, '/')) {
		*strrchr(self, '/') = 0;
		if ((size_t)snprintf(ret, size, "%s/../libexec/ranktrace/%s", self, name) < size &&
			access(ret, X_OK) == 0)
			return;
	}
	snprintf(ret, size, "%s/%s", RANKTRACE_LIBEXECDIR, name);
}

static void worker_close(int *fd, unsigned fds)
{
	for (unsigned i = 0; i < fds; i++)
		closep(&fd[i]);
}

static struct request *worker_request_free(struct request *request)
{
	if (!request)
		return NULL;
	worker_close(request->fd, request->fds);
	free(request->message);
	free(request);
	return NULL;
}

static void worker_deliver(struct request *request, struct worker_reply *reply)
{
	uint64_t now_ns = monotonic_ns();

	if (request->done)
		request->done(request->arg, reply);
	lag_work_add(request->kind->name, monotonic_ns() - now_ns);
	worker_close(reply->fd, reply->fds);
	worker_request_free(request);
}

/* Forgets the answer so far. */
static void process_clear(struct process *process)
{
	worker_close(process->fd, process->fds);
	process->fds = 0;
	free(process->data);
	process->data = NULL;
	process->size_bytes = process->capacity = 0;
}

static void process_free(struct process *process)
{
	struct event **events[] = {&process->on_socket, &process->on_end, &process->on_time};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (*events[i])
			event_free(*events[i]);
	process_clear(process);
	worker_request_free(process->request);
	closep(&process->socket_fd);
	closep(&process->pid_fd);
	free(process);
}

static void process_remove(struct process *process)
{
	struct process **link = &process->workers->process;

	while (*link != process)
		link = &(*link)->next;
	*link = process->next;
	process_free(process);
}

static void process_set_time(struct process *process, uint64_t after_ns)
{
	struct timeval after = {
		(time_t)(after_ns / NSEC_PER_SEC), (suseconds_t)(after_ns % NSEC_PER_SEC / NSEC_PER_USEC)};

	(void)event_add(process->on_time, &after);
}

/* 0: not known. */
static char process_state(const struct process *process)
{
	struct procfs_stat stat;

	return procfs_stat("/proc", (uint32_t)process->pid, &stat) == 0 ? stat.state : 0;
}

static uint64_t process_cpu_ns(const struct process *process)
{
	uint64_t cpu_ns = 0;

	(void)procfs_cpu_time((uint32_t)process->pid, &cpu_ns);
	return cpu_ns;
}

bool worker_is_stuck(char state, uint64_t cpu_ns)
{
	return state == 'D' || cpu_ns >= STUCK_CPU_NS;
}

static void process_kill(struct process *process)
{
	if (process->state >= PROCESS_KILLED)
		return;
	process->state = PROCESS_KILLED;
	(void)event_del(process->on_socket);
	/* An idle one ends by itself, too, when the connection closes. */
	closep(&process->socket_fd);
	process->socket_fd = -1;
	(void)syscall(SYS_pidfd_send_signal, process->pid_fd, SIGKILL, NULL, 0);
	process->cpu_ns = process_cpu_ns(process);
	process_set_time(process, ABANDON_NS);
}

static void workers_wake(struct workers *workers)
{
	event_active(workers->on_queue, EV_TIMEOUT, 0);
}

/* Ends the request of a busy process; the process is idle then, or killed. */
static void process_end_request(struct process *process, enum worker_end end)
{
	struct request *request = process->request;
	struct worker_reply reply = {.end = end,
		.size_bytes = process->size_bytes,
		.fds = process->fds,
		.took_ns = monotonic_ns() - process->started_ns};
	_cleanup_free_ uint8_t *data = process->data;

	memcpy(reply.fd, process->fd, sizeof(reply.fd));
	reply.data = data;
	process->data = NULL;
	process->size_bytes = process->capacity = 0;
	process->fds = 0;
	process->request = NULL;
	process->state = PROCESS_IDLE;
	process->workers->status.ended[end]++;
	process->workers->status.answered += end == WORKER_ANSWERED;
	if (end != WORKER_ANSWERED || !process->kind->reused || ++process->served >= REUSES_MAX)
		process_kill(process);
	else
		process_set_time(process, IDLE_NS);
	workers_wake(process->workers);
	worker_deliver(request, &reply);
}

static void process_fail(struct process *process, enum worker_end end)
{
	if (process->state == PROCESS_BUSY)
		process_end_request(process, end);
	else
		process_kill(process);
}

static bool process_reserve(struct process *process, size_t size_bytes)
{
	return array_reserve((void **)&process->data, &process->capacity, size_bytes, 1, SIZE_MAX);
}

static bool process_take_fds(struct process *process, struct msghdr *message)
{
	bool fits = !(message->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (process->fds < WORKER_FDS_MAX) {
				process->fd[process->fds++] = fd;
			} else {
				close(fd);
				fits = false;
			}
		}
	}
	return fits;
}

/* One message of the answer. False: nothing more now, or the process has failed. */
static bool process_read(struct process *process)
{
	static uint8_t chunk[WORKER_CHUNK_BYTES];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(WORKER_FDS_MAX * sizeof(int))];
	} control;
	struct worker_reply_message head;
	struct iovec parts[] = {{&head, sizeof(head)}, {chunk, sizeof(chunk)}};
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(process->socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	size_t size_bytes;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < (ssize_t)sizeof(head) || !process_take_fds(process, &message) || message.msg_flags & MSG_TRUNC ||
		process->state != PROCESS_BUSY) {
		process_fail(process, WORKER_DIED);
		return false;
	}
	size_bytes = (size_t)n - sizeof(head);
	if (size_bytes > process->kind->reply_bytes_max - process->size_bytes ||
		!process_reserve(process, process->size_bytes + size_bytes)) {
		process_fail(process, WORKER_TOO_LONG);
		return false;
	}
	if (size_bytes)
		memcpy(process->data + process->size_bytes, chunk, size_bytes);
	process->size_bytes += size_bytes;
	if (!head.is_last)
		return true;
	process_end_request(process, WORKER_ANSWERED);
	return false;
}

static void process_on_socket(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	for (unsigned i = 0; i < MESSAGES_MAX && process_read(arg); i++)
		;
}

/* What it said before its limit or its end is still in the socket. */
static void process_read_rest(struct process *process)
{
	for (unsigned i = 0; i < 2 * MESSAGES_MAX && process->state == PROCESS_BUSY; i++)
		if (!process_read(process))
			return;
}

/* On a busy machine a process that is ready to run gets more time, as long as it has not used what it may compute. One
 * that was not, because it had just answered, has its answer in the socket. */
static void process_on_limit(struct process *process)
{
	char state = process_state(process);

	process_read_rest(process);
	if (process->state != PROCESS_BUSY)
		return;
	if (state == 'R' && process_cpu_ns(process) - process->cpu_ns < process->kind->cpu_s_max * NSEC_PER_SEC)
		process_set_time(process, READY_NS);
	else
		process_end_request(process, WORKER_TIMED_OUT);
}

static void process_on_time(evutil_socket_t fd, short what, void *arg)
{
	struct process *process = arg;

	(void)fd;
	(void)what;
	if (process->state == PROCESS_KILLED &&
		!worker_is_stuck(process_state(process), process_cpu_ns(process) - process->cpu_ns)) {
		process_set_time(process, ABANDON_NS);
	} else if (process->state == PROCESS_KILLED) {
		process->state = PROCESS_ABANDONED;
		log_warning("worker",
			"a %s process (pid %d) cannot be killed: the kernel keeps it, for a process or file system of "
			"user %u; abandoned",
			process->kind->name, (int)process->pid, process->owner);
		workers_wake(process->workers);
	} else if (process->state == PROCESS_BUSY) {
		process_on_limit(process);
	} else if (process->state == PROCESS_IDLE) {
		process_kill(process);
	}
}

/* Without its workers the daemon sees no rank: logged once. */
static void worker_log_start(struct workers *workers, const struct worker_kind *kind, int error)
{
	if (!workers->start_logged)
		log_error_errno("worker", error, "cannot start the program %s", kind->program);
	workers->start_logged = true;
}

static void process_on_end(evutil_socket_t fd, short what, void *arg)
{
	struct process *process = arg;
	struct workers *workers = process->workers;
	int status = 0;

	(void)fd;
	(void)what;
	process_read_rest(process);
	if (!thread_child_ended(process->pid, &status, NULL))
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_LIBRARIES)
		worker_log_start(workers, process->kind, -ELIBACC);
	if (process->state == PROCESS_BUSY)
		process_end_request(process, WORKER_DIED);
	process_remove(process);
	workers_wake(workers);
}

static void process_on_start(void *arg, pid_t result);

static int worker_spawn(struct process *process, int socket_fd)
{
	const struct worker_kind *kind = process->kind;
	char program[PATH_MAX], parent[24], memory[24], cpu[24], libraries[PATH_MAX];
	const char *path = getenv("LD_LIBRARY_PATH"); /* the daemon's own libraries are the worker's */
	char *argv[] = {program, parent, memory, cpu, NULL}, *environment[] = {path ? libraries : NULL, NULL};

	worker_program(kind->program, program, sizeof(program));
	snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s", path ? path : "");
	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)kind->memory_bytes_max);
	snprintf(cpu, sizeof(cpu), "%u", kind->cpu_s_max);
	return spawner_start(process->workers->spawner, argv, environment, socket_fd, WORKER_SOCKET, process_on_start,
		process, &process->starting);
}

static int process_listen(struct process *process)
{
	struct event_base *base = process->workers->base;

	process->on_time = event_new(base, -1, 0, process_on_time, process);
	process->on_socket = event_new(base, process->socket_fd, EV_READ | EV_PERSIST, process_on_socket, process);
	process->on_end = event_new(base, process->pid_fd, EV_READ | EV_PERSIST, process_on_end, process);
	if (!process->on_time || !process->on_socket || !process->on_end || event_add(process->on_socket, NULL) < 0 ||
		event_add(process->on_end, NULL) < 0)
		return -ENOMEM;
	return 0;
}

static int process_spawn(struct process *process)
{
	_cleanup_close_ int its = -1;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	process->socket_fd = ends[0];
	its = ends[1];
	return worker_spawn(process, its);
}

static struct process *worker_process_new(struct workers *workers, const struct worker_kind *kind)
{
	struct process *process = calloc(1, sizeof(*process));
	int r = -ENOMEM;

	if (process) {
		*process = (struct process){.workers = workers, .kind = kind, .pid_fd = -1, .socket_fd = -1};
		r = process_spawn(process);
	}
	if (r < 0) {
		worker_log_start(workers, kind, r);
		if (process)
			process_free(process);
		return NULL;
	}
	process->next = workers->process;
	workers->process = process;
	return process;
}

/* Never blocks: the message is a few bytes and the socket is empty. */
static int process_send(struct process *process, const struct request *request)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE((WORKER_FDS_MAX + 1) * sizeof(int))];
	} control = {0};
	struct iovec part = {request->message, request->message_bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (request->fds) {
		struct cmsghdr *c;

		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(request->fds * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(request->fds * sizeof(int));
		memcpy(CMSG_DATA(c), request->fd, request->fds * sizeof(int));
	}
	return sendmsg(process->socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void worker_refuse(struct workers *workers, struct request *request, enum worker_end end)
{
	struct worker_reply none = {.end = end};

	workers->status.ended[end]++;
	worker_deliver(request, &none);
}

static void process_unstarted(struct process *process, int error)
{
	worker_log_start(process->workers, process->kind, error);
	if (process->request)
		worker_refuse(process->workers, TAKE_PTR(process->request), WORKER_UNSTARTED);
	workers_wake(process->workers);
	process_remove(process);
}

static void process_on_start(void *arg, pid_t result)
{
	struct process *process = arg;
	int r = result;

	process->starting = NULL;
	if (r > 0) {
		process->pid = result;
		process->pid_fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
		r = process->pid_fd < 0 ? -errno : process_listen(process);
		if (r < 0) {
			kill(process->pid, SIGKILL); /* not waited for yet: the pid is its own */
			thread_reap(process->pid);
		}
	}
	if (r < 0) {
		process_unstarted(process, r);
		return;
	}
	process->started_ns = monotonic_ns();
	process_set_time(process, process->request ? process->kind->wall_ns_max : IDLE_NS);
}

/* It has ended, or there is no such program: process_on_start() removes it then. */
static void process_unsent(struct process *process)
{
	if (process->starting)
		worker_refuse(process->workers, TAKE_PTR(process->request), WORKER_UNSTARTED);
	else
		process_end_request(process, WORKER_DIED);
}

static void worker_start(struct workers *workers, struct request *request, struct process *process)
{
	if (!process)
		process = worker_process_new(workers, request->kind);
	if (!process) {
		worker_refuse(workers, request, WORKER_UNSTARTED);
		return;
	}
	process->request = request;
	process->owner = request->owner;
	process->state = PROCESS_BUSY;
	process->started_ns = monotonic_ns();
	if (!process->starting) {
		process->cpu_ns = process_cpu_ns(process);
		process_set_time(process, request->kind->wall_ns_max);
	}
	if (process_send(process, request) < 0) {
		process_unsent(process);
		return;
	}
	worker_close(request->fd, request->fds);
	request->fds = 0;
}

static unsigned worker_abandoned(const struct workers *workers, const uint32_t *owner)
{
	unsigned count = 0;

	for (const struct process *p = workers->process; p; p = p->next)
		count += p->state == PROCESS_ABANDONED && (!owner || p->owner == *owner);
	return count;
}

static bool worker_is_barred(const struct workers *workers, uint32_t owner)
{
	return worker_abandoned(workers, &owner) >= WORKER_ABANDONED_OWNER_MAX ||
	       worker_abandoned(workers, NULL) >= WORKER_ABANDONED_MAX;
}

/* Whether the request may start now; *ret_process: an idle process for it, or NULL. */
static bool worker_may_start(const struct workers *workers, const struct request *request, struct process **ret_process)
{
	const struct worker_kind *kind = request->kind;
	unsigned used = 0, owners = 0;

	*ret_process = NULL;
	for (struct process *p = workers->process; p; p = p->next) {
		if (p->kind != kind || p->state == PROCESS_ABANDONED)
			continue;
		used += p->state != PROCESS_IDLE;
		owners += p->state != PROCESS_IDLE && p->owner == request->owner;
		if (p->state == PROCESS_IDLE)
			*ret_process = p;
	}
	return used < kind->processes_max && (kind->processes_max == 1 || owners + 1 < kind->processes_max);
}

static void workers_on_queue(evutil_socket_t fd, short what, void *arg)
{
	struct workers *workers = arg;
	struct request **link = &workers->first, *request;
	struct process *process = NULL;

	(void)fd;
	(void)what;
	while ((request = *link)) {
		bool barred = worker_is_barred(workers, request->owner);

		if (request->done && !barred && !worker_may_start(workers, request, &process)) {
			link = &request->next;
			continue;
		}
		*link = request->next;
		if (workers->last == &request->next)
			workers->last = link;
		workers->status.waiting--;
		/* The callbacks may ask, which appends. */
		if (!request->done)
			worker_request_free(request);
		else if (barred)
			worker_refuse(workers, request, WORKER_BARRED);
		else
			worker_start(workers, request, process);
	}
}

int workers_new(struct event_base *base, struct workers **ret)
{
	struct workers *workers = calloc(1, sizeof(*workers));
	int r;

	if (!workers)
		return -ENOMEM;
	workers->base = base;
	workers->last = &workers->first;
	workers->on_queue = event_new(base, -1, 0, workers_on_queue, workers);
	r = workers->on_queue ? spawner_new(base, &workers->spawner) : -ENOMEM;
	if (r < 0) {
		if (workers->on_queue)
			event_free(workers->on_queue);
		free(workers);
		return r;
	}
	*ret = workers;
	return 0;
}

struct spawner *workers_spawner(const struct workers *workers)
{
	return workers ? workers->spawner : NULL;
}

struct workers *workers_free(struct workers *workers)
{
	struct request *request;
	struct process *process;

	if (!workers)
		return NULL;
	while ((request = workers->first)) {
		workers->first = request->next;
		worker_request_free(request);
	}
	while ((process = workers->process)) {
		workers->process = process->next;
		if (process->starting) {
			spawner_cancel(workers->spawner, process->starting);
		} else {
			(void)syscall(SYS_pidfd_send_signal, process->pid_fd, SIGKILL, NULL, 0);
			thread_reap(process->pid);
		}
		process_free(process);
	}
	spawner_free(workers->spawner);
	event_free(workers->on_queue);
	free(workers);
	return NULL;
}

static int worker_request_write_file(struct request *request, const void *bytes, size_t size_bytes)
{
	size_t done = 0;

	request->fd[0] = memfd_create("request", MFD_CLOEXEC);
	if (request->fd[0] < 0)
		return -errno;
	request->fds = 1;
	while (done < size_bytes) {
		ssize_t n = write(request->fd[0], (const uint8_t *)bytes + done, size_bytes - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int worker_request_write(struct request *request, const void *bytes, size_t size_bytes)
{
	size_t here_bytes = size_bytes <= WORKER_INLINE_BYTES ? size_bytes : 0;

	request->message_bytes = offsetof(struct worker_request_message, bytes) + here_bytes;
	request->message = malloc(request->message_bytes);
	if (!request->message)
		return -ENOMEM;
	request->message->size_bytes = size_bytes;
	if (here_bytes)
		memcpy(request->message->bytes, bytes, here_bytes);
	return size_bytes > here_bytes ? worker_request_write_file(request, bytes, size_bytes) : 0;
}

static int worker_request_fill(
	struct request *request, const void *bytes, size_t size_bytes, const int *fd, unsigned fds)
{
	int r = worker_request_write(request, bytes, size_bytes);

	for (unsigned i = 0; i < fds && r == 0; i++) {
		request->fd[request->fds] = fcntl(fd[i], F_DUPFD_CLOEXEC, WORKER_SOCKET + 1);
		if (request->fd[request->fds] < 0)
			r = -errno;
		else
			request->fds++;
	}
	return r;
}

static unsigned worker_waiting(const struct workers *workers, uint32_t owner)
{
	unsigned count = 0;

	for (const struct request *r = workers->first; r; r = r->next)
		count += r->owner == owner;
	return count;
}

int worker_ask(struct workers *workers, const struct worker_kind *kind, uint32_t owner, const void *request,
	size_t size_bytes, const int *fd, unsigned fds, worker_done done, void *arg, uint64_t *ret_id)
{
	struct request *asked;
	int r;

	if (fds > WORKER_FDS_MAX)
		return -EINVAL;
	if (worker_is_barred(workers, owner))
		return -EUSERS;
	if (workers->status.waiting >= WORKER_QUEUE_MAX || worker_waiting(workers, owner) >= WORKER_QUEUE_OWNER_MAX)
		return -EBUSY;
	asked = calloc(1, sizeof(*asked));
	if (!asked)
		return -ENOMEM;
	r = worker_request_fill(asked, request, size_bytes, fd, fds);
	if (r < 0) {
		worker_request_free(asked);
		return r;
	}
	asked->kind = kind;
	asked->owner = owner;
	asked->done = done;
	asked->arg = arg;
	asked->id = ++workers->last_id;
	*workers->last = asked;
	workers->last = &asked->next;
	workers->status.asked++;
	workers->status.waiting++;
	workers_wake(workers);
	*ret_id = asked->id;
	return 0;
}

void worker_cancel(struct workers *workers, uint64_t id)
{
	for (struct request *r = workers->first; r; r = r->next)
		if (r->id == id)
			r->done = NULL;
	for (struct process *p = workers->process; p; p = p->next)
		if (p->request && p->request->id == id)
			p->request->done = NULL;
}

void workers_status(const struct workers *workers, struct workers_status *ret)
{
	*ret = workers->status;
	for (const struct process *p = workers->process; p; p = p->next)
		ret->running += p->state == PROCESS_BUSY;
	ret->abandoned = worker_abandoned(workers, NULL);
}

uint64_t workers_cpu_ns(struct workers *workers)
{
	struct rusage ended = {0};
	uint64_t sum_ns, cpu_ns;

	getrusage(RUSAGE_CHILDREN, &ended);
	sum_ns = timeval_ns(ended.ru_utime) + timeval_ns(ended.ru_stime);
	if (!workers)
		return sum_ns;
	for (const struct process *process = workers->process; process; process = process->next)
		if (!process->starting && procfs_cpu_time((uint32_t)process->pid, &cpu_ns) == 0)
			sum_ns += cpu_ns;
	/* One that has ended is in neither until it is reaped. */
	if (sum_ns > workers->cpu_ns)
		workers->cpu_ns = sum_ns;
	return workers->cpu_ns;
}
