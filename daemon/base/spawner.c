/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/spawn.h"
#include "daemon/base/thread.h"
#include "daemon/base/util.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

struct spawner_job {
	struct spawner_job *next;
	char **argv, **environment;
	int fd, to;
	spawner_done done; /* NULL: cancelled; of the loop */
	void *arg;
	pid_t result;
};

/* Shared by loop and thread; the last one frees it. */
struct spawner {
	pthread_mutex_t lock;
	pthread_cond_t asked;
	struct spawner_job *first, **last; /* to be started */
	struct spawner_job *started;
	bool is_closed;
	unsigned users;
	int ready_fd; /* eventfd: some have started */
	struct event *on_ready;
};

static char **spawner_copy(char *const *texts)
{
	size_t count = 0;
	char **copy;

	while (texts[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = strdup(texts[i]);
		if (!copy[i]) {
			while (i-- > 0)
				free(copy[i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

static void spawner_free_texts(char **texts)
{
	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

static struct spawner_job *spawner_job_free(struct spawner_job *job)
{
	if (job) {
		spawner_free_texts(job->argv);
		spawner_free_texts(job->environment);
		closep(&job->fd);
	}
	free(job);
	return NULL;
}

static void spawner_free_jobs(struct spawner_job *job)
{
	for (struct spawner_job *next; job; job = next) {
		next = job->next;
		spawner_job_free(job);
	}
}

/* With the lock held, which it releases. */
static void spawner_release(struct spawner *spawner)
{
	bool is_last = --spawner->users == 0;

	pthread_mutex_unlock(&spawner->lock);
	if (!is_last)
		return;
	spawner_free_jobs(spawner->first);
	spawner_free_jobs(spawner->started);
	closep(&spawner->ready_fd);
	pthread_cond_destroy(&spawner->asked);
	pthread_mutex_destroy(&spawner->lock);
	free(spawner);
}

static struct spawner_job *spawner_take(struct spawner *spawner)
{
	struct spawner_job *job = spawner->first;

	spawner->first = job->next;
	if (!spawner->first)
		spawner->last = &spawner->first;
	job->next = NULL;
	return job;
}

static void *spawner_run(void *arg)
{
	struct spawner *spawner = arg;

	pthread_mutex_lock(&spawner->lock);
	while (!spawner->is_closed) {
		struct spawner_job *job;
		int r;

		if (!spawner->first) {
			pthread_cond_wait(&spawner->asked, &spawner->lock);
			continue;
		}
		job = spawner_take(spawner);
		pthread_mutex_unlock(&spawner->lock);
		r = spawn_program(job->argv, job->environment, job->fd, job->to, &job->result);
		if (r < 0)
			job->result = r;
		closep(&job->fd);
		job->fd = -1;
		pthread_mutex_lock(&spawner->lock);
		job->next = spawner->started;
		spawner->started = job;
		(void)eventfd_write(spawner->ready_fd, 1);
	}
	spawner_release(spawner);
	return NULL;
}

static void spawner_deliver(struct spawner_job *job)
{
	if (job->done) {
		job->done(job->arg, job->result);
	} else if (job->result > 0) {
		kill(job->result, SIGKILL); /* not waited for yet: the pid is its own */
		thread_reap(job->result);
	}
	spawner_job_free(job);
}

static void spawner_on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct spawner *spawner = arg;
	struct spawner_job *job;
	eventfd_t count;

	(void)eventfd_read(fd, &count);
	pthread_mutex_lock(&spawner->lock);
	job = spawner->started;
	spawner->started = NULL;
	pthread_mutex_unlock(&spawner->lock);
	for (struct spawner_job *next; job; job = next) {
		next = job->next;
		spawner_deliver(job);
	}
}

int spawner_new(struct event_base *base, struct spawner **ret)
{
	struct spawner *spawner = calloc(1, sizeof(*spawner));
	int r;

	if (!spawner)
		return -ENOMEM;
	pthread_mutex_init(&spawner->lock, NULL);
	pthread_cond_init(&spawner->asked, NULL);
	spawner->last = &spawner->first;
	spawner->users = 1;
	spawner->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = spawner->ready_fd < 0 ? -errno : 0;
	spawner->on_ready =
		r == 0 ? event_new(base, spawner->ready_fd, EV_READ | EV_PERSIST, spawner_on_ready, spawner) : NULL;
	if (r == 0 && (!spawner->on_ready || event_add(spawner->on_ready, NULL) < 0))
		r = -ENOMEM;
	spawner->users++;
	if (r == 0)
		r = thread_run(spawner_run, spawner);
	if (r < 0) {
		spawner->users--;
		spawner_free(spawner);
		return r;
	}
	*ret = spawner;
	return 0;
}

struct spawner *spawner_free(struct spawner *spawner)
{
	if (!spawner)
		return NULL;
	if (spawner->on_ready)
		event_free(spawner->on_ready);
	pthread_mutex_lock(&spawner->lock);
	spawner->is_closed = true;
	pthread_cond_signal(&spawner->asked);
	spawner_release(spawner);
	return NULL;
}

int spawner_start(struct spawner *spawner, char *const *argv, char *const *environment, int fd, int to,
	spawner_done done, void *arg, struct spawner_job **ret)
{
	struct spawner_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = (struct spawner_job){.argv = spawner_copy(argv),
		.environment = spawner_copy(environment),
		/* Above `to`: dup2() onto itself would keep CLOEXEC. */
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, to + 1),
		.to = to,
		.done = done,
		.arg = arg};
	if (!job->argv || !job->environment || job->fd < 0) {
		spawner_job_free(job);
		return -ENOMEM;
	}
	*ret = job;
	pthread_mutex_lock(&spawner->lock);
	*spawner->last = job;
	spawner->last = &job->next;
	pthread_cond_signal(&spawner->asked);
	pthread_mutex_unlock(&spawner->lock);
	return 0;
}

void spawner_cancel(struct spawner *spawner, struct spawner_job *job)
{
	job->done = NULL; /* only the loop reads it */
}
