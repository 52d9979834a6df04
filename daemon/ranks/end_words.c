/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ranks/end_words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
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

/* The signal that ended the process, or that it says did; 0: none. */
static uint32_t end_signal_of(int wait_status)
{
	int status = WEXITSTATUS(wait_status);

	if (wait_status < 0)
		return 0;
	if (WIFSIGNALED(wait_status))
		return (uint32_t)WTERMSIG(wait_status);
	return status > SHELL_SIGNAL ? (uint32_t)(status - SHELL_SIGNAL) : 0;
}

bool end_is_out_of_memory(int wait_status, const struct end_sender *sender)
{
	return sender && sender->out_of_memory && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
}

enum end_kind end_kind_of(int wait_status, const struct end_sender *sender)
{
	if (wait_status < 0)
		return END_UNKNOWN;
	if (wait_status == 0)
		return END_NORMAL;
	return end_asks(end_signal_of(wait_status)) && !end_is_out_of_memory(wait_status, sender) ? END_ASKED
												  : END_ERROR;
}

const char *end_signal_words(uint32_t signal, char ret[END_WORDS_BYTES])
{
	if (signal < ARRAY_SIZE(end_signals) && end_signals[signal].name)
		snprintf(ret, END_WORDS_BYTES, "%s", end_signals[signal].name);
	else
		snprintf(ret, END_WORDS_BYTES, "signal %u", signal);
	return ret;
}

static void end_add_sender(int wait_status, const struct end_sender *sender, char ret[END_WORDS_BYTES])
{
	size_t used = strlen(ret), left = END_WORDS_BYTES - used;
	const char *after = WIFSIGNALED(wait_status) ? "" : " after ",
		   *name = after[0] ? end_signals[sender->signal].name : "";

	if (end_is_out_of_memory(wait_status, sender))
		snprintf(ret + used, left, " from the kernel, out of memory");
	else if (!sender->pid)
		snprintf(ret + used, left, "%s%s from the kernel", after, name);
	else
		snprintf(ret + used, left, "%s%s from %.15s (pid %u)", after, name, sender->name, sender->pid);
}

const char *end_words(
	int wait_status, const char *exception, const struct end_sender *sender, char ret[END_WORDS_BYTES])
{
	if (wait_status < 0)
		snprintf(ret, END_WORDS_BYTES, "cause not seen");
	else if (WIFSIGNALED(wait_status))
		end_signal_words((uint32_t)WTERMSIG(wait_status), ret);
	else
		snprintf(ret, END_WORDS_BYTES, "exit status %d%s%.48s", WEXITSTATUS(wait_status),
			exception[0] ? ", " : "", exception);
	if (sender && end_asks(sender->signal) && sender->signal == end_signal_of(wait_status))
		end_add_sender(wait_status, sender, ret);
	return ret;
}
