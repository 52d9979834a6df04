/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ranks/end_words.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "daemon/base/util.h"

static const struct {
	const char *name;
	bool asks; /* sent by whoever wants a process to end */
} end_signals[] = {
	[SIGHUP] = {"SIGHUP", true},
	[SIGINT] = {"SIGINT", true},
	[SIGQUIT] = {"SIGQUIT", true},
	[SIGILL] = {"SIGILL", false},
	[SIGTRAP] = {"SIGTRAP", false},
	[SIGABRT] = {"SIGABRT", false},
	[SIGBUS] = {"SIGBUS", false},
	[SIGFPE] = {"SIGFPE", false},
	[SIGKILL] = {"SIGKILL", true},
	[SIGUSR1] = {"SIGUSR1", true},
	[SIGSEGV] = {"SIGSEGV", false},
	[SIGUSR2] = {"SIGUSR2", true},
	[SIGPIPE] = {"SIGPIPE", false},
	[SIGALRM] = {"SIGALRM", false},
	[SIGTERM] = {"SIGTERM", true},
	[SIGXCPU] = {"SIGXCPU", false},
	[SIGXFSZ] = {"SIGXFSZ", false},
	[SIGSYS] = {"SIGSYS", false},
};

#define SHELL_SIGNAL 128 /* a program that handles a signal ends with this and its number, as a shell does */

static bool end_asks(uint32_t signal)
{
	return signal < ARRAY_SIZE(end_signals) && end_signals[signal].asks;
}

enum end_kind end_kind_of(int wait_status)
{
	int status = WEXITSTATUS(wait_status);

	if (wait_status < 0)
		return END_UNKNOWN;
	if (WIFSIGNALED(wait_status))
		return end_asks((uint32_t)WTERMSIG(wait_status)) ? END_ASKED : END_ERROR;
	if (status > SHELL_SIGNAL && end_asks((uint32_t)(status - SHELL_SIGNAL)))
		return END_ASKED;
	return status ? END_ERROR : END_NORMAL;
}

const char *end_signal_words(uint32_t signal, char ret[END_WORDS_BYTES])
{
	if (signal < ARRAY_SIZE(end_signals) && end_signals[signal].name)
		snprintf(ret, END_WORDS_BYTES, "%s", end_signals[signal].name);
	else
		snprintf(ret, END_WORDS_BYTES, "signal %u", signal);
	return ret;
}

const char *end_words(int wait_status, const char *exception, char ret[END_WORDS_BYTES])
{
	if (wait_status < 0)
		snprintf(ret, END_WORDS_BYTES, "cause not seen");
	else if (WIFSIGNALED(wait_status))
		return end_signal_words((uint32_t)WTERMSIG(wait_status), ret);
	else
		snprintf(ret, END_WORDS_BYTES, "exit status %d%s%s", WEXITSTATUS(wait_status), exception[0] ? ", " : "",
			exception);
	return ret;
}
