/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs that are programs: libexec/ranktrace/VERB, run in place of tracectl with the rest of the arguments as they
 * stand. They read the store; where it is stands in RANKTRACE_STATE_DIR, from --state-dir, from the environment, or
 * from the daemon; where the installed daemon is down, it is where that one keeps it.
 *
 * A program with a row in verbs.def checks its arguments before it opens the store. So that a wrong option is reported
 * before a daemon that is down, it gets what is to be said about the store in the environment: RANKTRACE_STATE_ERROR,
 * with RANKTRACE_STATE_EXIT, where there is none, and RANKTRACE_STATE_NOTE. analyzers/tool/tool.c says it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ctl/client.h"

/* Beside the installed place, a build tree's own: tracectl runs from there with nothing installed. */
static const char *external_folder(void)
{
	static char near[PATH_MAX];
	const char *set = getenv("RANKTRACE_LIBEXEC");
	char self[PATH_MAX / 2];
	ssize_t n;

	if (set && *set)
		return set;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	if (strrchr(self, '/')) {
		*strrchr(self, '/') = 0;
		snprintf(near, sizeof(near), "%s/../libexec/ranktrace", self);
		if (access(near, X_OK) == 0)
			return near;
	}
	return RANKTRACE_LIBEXECDIR;
}

static bool external_path(const char *verb, char path[PATH_MAX])
{
	struct stat st;

	/* A verb is a name, never a way to somewhere else. */
	if (!*verb || *verb == '.' || strchr(verb, '/'))
		return false;
	if (snprintf(path, PATH_MAX, "%s/%s", external_folder(), verb) >= PATH_MAX)
		return false;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool external_exists(const char *verb)
{
	char path[PATH_MAX];

	return external_path(verb, path);
}

void external_each(void (*callback)(void *arg, const char *name), void *arg)
{
	struct dirent **entry = NULL;
	int count = scandir(external_folder(), &entry, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		if (!verb_find(entry[i]->d_name) && external_exists(entry[i]->d_name))
			callback(arg, entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
}

#define HELP_BYTES_MAX 65536

static void external_exec_help(const char *path, int out)
{
	char *args[] = {(char *)path, (char[]){"--help"}, NULL};

	if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stderr) || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execv(path, args);
	_exit(127);
}

char *external_help(const char *verb)
{
	const struct verb *row = verb_find(verb);
	char path[PATH_MAX], *text;
	size_t used = 0;
	int ends[2], status = 0;
	ssize_t n = 1;
	pid_t pid;

	if (!row || row->run || !external_path(verb, path) || pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		external_exec_help(path, ends[1]);
	close(ends[1]);
	text = pid > 0 ? malloc(HELP_BYTES_MAX + 1) : NULL;
	while (text && n > 0 && used < HELP_BYTES_MAX) {
		n = read(ends[0], text + used, HELP_BYTES_MAX - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!text)
		return NULL;
	text[used] = 0;
	return text;
}

/* What a program with a row says once its arguments are good. */
static int external_leave(const char *name, const char *text)
{
	return setenv(name, text, 1) < 0 ? ctl_fail(EXIT_REFUSED, "out of memory") : EXIT_DONE;
}

/* The store cannot be found: said now, or by the program. */
static _printf_(3, 4) int external_no_store(const char *verb, enum exit_code code, const char *format, ...)
{
	char text[PATH_MAX + 256], number[16];
	const struct verb *row = verb_find(verb);
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!row)
		return ctl_fail(code, "%s", text);
	snprintf(number, sizeof(number), "%d", (int)code);
	r = external_leave("RANKTRACE_STATE_ERROR", text);
	return r == EXIT_DONE ? external_leave("RANKTRACE_STATE_EXIT", number) : r;
}

/* The daemon is down, and its socket is the usual one: what it has stored can be read all the same. */
static int external_usual_store(const char *verb)
{
	char text[PATH_MAX + 64];
	int code = EXIT_DONE;

	if (access(RANKTRACE_STATEDIR "/db", R_OK | X_OK) < 0) {
		if (errno != EACCES)
			return EXIT_UNREACHABLE;
		return external_no_store(verb, EXIT_REFUSED,
			"no daemon answers, and only root and members of group ranktrace may read the store in %s",
			RANKTRACE_STATEDIR);
	}
	snprintf(text, sizeof(text), "no daemon answers; this is what is stored in %s", RANKTRACE_STATEDIR);
	if (verb_find(verb))
		code = external_leave("RANKTRACE_STATE_NOTE", text);
	else
		fprintf(stderr, "tracectl %s: %s\n", verb, text);
	return code == EXIT_DONE ? external_leave("RANKTRACE_STATE_DIR", RANKTRACE_STATEDIR) : code;
}

static int external_ask_daemon(const struct command *command, const char *verb)
{
	Ranktrace__Request request = RANKTRACE__REQUEST__INIT;
	Ranktrace__Response *response = NULL;
	int code;

	request.type = RANKTRACE__REQUEST_TYPE__REQUEST_WHERE;
	code = client_ask_quietly(command, &request, RANKTRACE__RESPONSE__BODY_WHERE, &response);
	if (code == EXIT_UNREACHABLE && strcmp(command->socket, RANKTRACE_SOCKET) == 0)
		code = external_usual_store(verb);
	else if (code == EXIT_DONE)
		code = external_leave("RANKTRACE_STATE_DIR", response->where->state_dir);
	client_free(response);
	if (code == EXIT_UNREACHABLE)
		return external_no_store(verb, EXIT_UNREACHABLE,
			"no daemon answers on %s to say where the store is; --state-dir D says it instead",
			command->socket);
	return code;
}

/* Options of programs with which they read something else than this node's store, or nothing. */
static bool external_reads_elsewhere(int argc, char **argv)
{
	static const char *const elsewhere[] = {"--dir", "--from-systrace", "--help", "-h", "--version", "--tables"};

	for (int i = 0; i < argc; i++)
		for (size_t j = 0; j < ARRAY_SIZE(elsewhere); j++) {
			size_t length = strlen(elsewhere[j]);

			if (strncmp(argv[i], elsewhere[j], length) == 0 &&
				(argv[i][length] == 0 || argv[i][length] == '='))
				return true;
		}
	return false;
}

/* Our own programs know long options only, and -h is one of every verb. What follows "--" is no option. */
static void external_long_help(char **args)
{
	for (; *args && strcmp(*args, "--") != 0; args++)
		if (strcmp(*args, "-h") == 0)
			*args = (char *)"--help";
}

/* A program may have the daemon do something: by this tracectl, at this socket. */
static int external_leave_self(const struct command *command)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int code = EXIT_DONE;

	if (n > 0) {
		self[n] = 0;
		code = external_leave("RANKTRACE_TRACECTL", self);
	}
	return code == EXIT_DONE ? external_leave("RANKTRACE_SOCKET", command->socket) : code;
}

int external_run(const struct command *command, const char *verb, int argc, char **argv)
{
	const char *known = getenv("RANKTRACE_STATE_DIR");
	char path[PATH_MAX], name[64], **args;
	int code = EXIT_DONE;

	if (!external_path(verb, path))
		return ctl_fail(EXIT_USAGE, "unknown verb '%s'; see tracectl help", verb);
	args = calloc((size_t)argc + 2, sizeof(*args));
	if (!args)
		return ctl_fail(EXIT_REFUSED, "out of memory");
	args[0] = path;
	memcpy(args + 1, argv, (size_t)argc * sizeof(*args));
	if (verb_find(verb)) {
		/* How its sentences begin. */
		snprintf(name, sizeof(name), "tracectl %s", verb);
		args[0] = name;
		external_long_help(args + 1);
	}
	if (command->state_dir)
		code = external_leave("RANKTRACE_STATE_DIR", command->state_dir);
	else if ((!known || !*known) && !external_reads_elsewhere(argc, argv))
		code = external_ask_daemon(command, verb);
	if (code == EXIT_DONE)
		code = external_leave_self(command);
	if (code == EXIT_DONE) {
		execv(path, args);
		code = ctl_fail(EXIT_REFUSED, "cannot run %s: %s", path, strerror(errno));
	}
	free(args);
	return code;
}
