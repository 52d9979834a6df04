/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/stat_within.h"

#include <fcntl.h>
#include <limits.h>

#include "daemon/util.h"
#include "daemon/within.h"

struct question {
	struct stat st;
	char path[PATH_MAX];
};

static int stat_timeout_ask(void *arg)
{
	struct question *question = arg;

	return fstatat(AT_FDCWD, question->path, &question->st, 0) < 0 ? -errno : 0;
}

static void stat_timeout_forget(void *arg, int answer)
{
	(void)answer;
	free(arg);
}

int stat_timeout(const char *path, uint64_t wait_ns, struct stat *ret)
{
	static const struct timeout_call within = {stat_timeout_ask, stat_timeout_forget};
	struct question *question;
	void *asked;
	int r;

	if (strlen(path) >= sizeof(question->path))
		return -ENAMETOOLONG;
	question = malloc(sizeof(*question));
	if (!question)
		return -ENOMEM;
	memcpy(question->path, path, strlen(path) + 1);
	asked = question;
	r = timeout_call_run(&within, &asked, wait_ns);
	if (r == 0)
		*ret = question->st;
	free(asked);
	return r;
}
