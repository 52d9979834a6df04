/* SPDX-License-Identifier: Apache-2.0 */
/* Runs windows in a thread (launch.h). A window is a job of it; the lock guards stopping. */
#include "daemon/base/job_thread.h"
#include "daemon/base/thread.h"
#include "daemon/collect/launch.h"

struct launch_job {
	struct thread_job job;
	struct launch_window *window;
	struct launch_order *order;
	struct launch_result result;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stopping;
};

struct launch_worker {
	struct job_thread *thread;
	struct launch_window *window;
	struct launch_job *job; /* NULL: idle */
	bool stopped;
};

struct launch_order *launch_order_free(struct launch_order *order)
{
	for (size_t i = 0; order && i < order->targets; i++)
		closep(&order->target[i].fd);
	free(order);
	return NULL;
}

/* Waits until the time or a stop. */
static void wait_until(void *arg, uint64_t until_ns)
{
	struct launch_job *job = arg;

	pthread_mutex_lock(&job->lock);
	while (!job->stopping && monotonic_ns() < until_ns)
		(void)thread_wait_until(&job->changed, &job->lock, until_ns);
	pthread_mutex_unlock(&job->lock);
}

static void launch_job_run(struct thread_job *of)
{
	struct launch_job *job = (struct launch_job *)of;
	bool stopping;

	wait_until(job, job->order->at_ns);
	pthread_mutex_lock(&job->lock);
	stopping = job->stopping;
	pthread_mutex_unlock(&job->lock);
	if (!stopping)
		launch_window_run(job->window, job->order->target, job->order->targets, job->order->length_ns,
			wait_until, job, &job->result);
	job->order = launch_order_free(job->order);
}

static void launch_job_free(struct launch_job *job)
{
	launch_order_free(job->order);
	free(job->result.thread);
	pthread_cond_destroy(&job->changed);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

/* A job that was still blocked in the kernel when its worker stopped: it owns the window. */
static void launch_job_abandoned(struct thread_job *of)
{
	struct launch_job *job = (struct launch_job *)of;

	launch_window_close(job->window);
	launch_job_free(job);
}

int launch_worker_start(struct launch_window *window, struct launch_worker **ret)
{
	struct launch_worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->window = window;
	r = job_thread_new(&worker->thread);
	if (r < 0) {
		free(worker);
		return r;
	}
	*ret = worker;
	return 0;
}

int launch_worker_order(struct launch_worker *worker, struct launch_order *order)
{
	struct launch_job *job;
	int r;

	if (!launch_worker_is_idle(worker))
		return -EBUSY;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	r = thread_condition(&job->changed);
	if (r < 0) {
		free(job);
		return r;
	}
	pthread_mutex_init(&job->lock, NULL);
	job->job = (struct thread_job){.run = launch_job_run, .free = launch_job_abandoned};
	job->window = worker->window;
	job->order = order;
	worker->job = job;
	job_thread_order(worker->thread, &job->job);
	return 0;
}

bool launch_worker_is_idle(struct launch_worker *worker)
{
	return !worker->job && !worker->stopped;
}

bool launch_worker_take(struct launch_worker *worker, struct launch_result *ret)
{
	struct launch_job *job = worker->job;

	if (!job || !job_thread_wait(worker->thread, &job->job, 0))
		return false;
	*ret = job->result;
	job->result = (struct launch_result){0};
	launch_job_free(job);
	worker->job = NULL;
	return true;
}

bool launch_worker_stop(struct launch_worker *worker, uint64_t wait_ns)
{
	struct launch_job *job = worker->job;

	worker->stopped = true;
	if (!job)
		return true;
	pthread_mutex_lock(&job->lock);
	job->stopping = true;
	pthread_cond_signal(&job->changed);
	pthread_mutex_unlock(&job->lock);
	if (job_thread_wait(worker->thread, &job->job, wait_ns))
		return true;
	job_thread_forget(worker->thread, &job->job);
	worker->job = NULL;
	launch_worker_free(worker);
	return false;
}

void launch_worker_free(struct launch_worker *worker)
{
	if (!worker)
		return;
	if (worker->job)
		launch_job_free(worker->job);
	job_thread_free(worker->thread);
	free(worker);
}
