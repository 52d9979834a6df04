/* SPDX-License-Identifier: Apache-2.0 */
/* The listening end of the control socket: see control.h. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include "daemon/control/control.h"
#include "daemon/base/log.h"
#include "daemon/base/passed.h"

#define BACKLOG SOMAXCONN /* as of systemd's socket: whoever connects while others flood it waits in the queue */

/* 1: systemd passed one, 0: it passed nothing. */
static int take_passed(struct control_listen *ret)
{
	int fd = -1, count = passed_sockets(NULL, &fd);

	passed_end(); /* control is opened last */
	if (count < 0)
		return log_error_errno("control", count, "cannot take the sockets that systemd passed");
	if (count == 0)
		return 0;
	if (count > 1 || sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0) {
		log_error("control",
			"systemd passed %d sockets where one listening Unix stream socket belongs; "
			"check ListenStream= in ranktraced.socket",
			count);
		return -EINVAL;
	}
	/* Again: clients see the process that listened as the peer (SO_PEERCRED), which was systemd. */
	if (listen(fd, BACKLOG) < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return log_error_errno("control", errno, "cannot use the socket that systemd passed");
	*ret = (struct control_listen){.fd = fd};
	log_info("control", "serving on the socket that systemd passed");
	return 1;
}

/* The folders on the way to the socket, 0755 where they are missing. */
static int make_folders(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

	copy_text(folder, sizeof(folder), path);
	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(folder, 0755) < 0 && errno != EEXIST)
			return log_error_errno(
				"control", errno, "cannot make the folder %s for the control socket", folder);
		*slash = '/';
	}
	return 0;
}

static int clear_stale(const char *path, const struct sockaddr_un *address)
{
	_cleanup_close_ int probe = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : log_error_errno("control", errno, "cannot stat %s", path);
	if (!S_ISSOCK(st.st_mode)) {
		log_error("control", "%s exists and is not a socket; move it away or name another socket", path);
		return -EEXIST;
	}
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return log_error_errno("control", errno, "cannot make a socket");
	/* EAGAIN: there is a listener, and its backlog is full. */
	if (connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN) {
		log_error("control", "another daemon answers on %s; stop it or name another socket", path);
		return -EADDRINUSE;
	}
	if (errno != ECONNREFUSED)
		return log_error_errno("control", errno, "cannot check whether a daemon answers on %s", path);
	log_info("control", "replacing the socket %s that a daemon left behind", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return log_error_errno("control", errno, "cannot remove %s", path);
	return 0;
}

static int bind_and_listen(int fd, const struct sockaddr_un *address, struct control_listen *ret)
{
	const char *path = address->sun_path;
	mode_t mask = umask(0177);
	int r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
	struct stat st;

	umask(mask);
	if (r < 0)
		return log_error_errno("control", r, "cannot make the control socket %s", path);
	/* Everybody may connect: who may do what is decided by the peer's credentials. */
	if (lstat(path, &st) < 0 || listen(fd, BACKLOG) < 0 || chmod(path, 0666) < 0) {
		r = log_error_errno("control", errno, "cannot serve on %s", path);
		unlink(path);
		return r;
	}
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return 0;
}

int control_listen_open(const char *path, struct control_listen *ret)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct control_listen made = {.fd = -1};
	_cleanup_close_ int fd = -1;
	int r;

	r = take_passed(ret);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!*path || !copy_text(address.sun_path, sizeof(address.sun_path), path)) {
		log_error("control", "a socket's path has 1 to %zu bytes, so '%s' cannot be one",
			sizeof(address.sun_path) - 1, path);
		return -ENAMETOOLONG;
	}
	r = make_folders(path);
	if (r == 0)
		r = clear_stale(path, &address);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return log_error_errno("control", errno, "cannot make a socket");
	r = bind_and_listen(fd, &address, &made);
	if (r < 0)
		return r;
	copy_text(made.path, sizeof(made.path), path);
	made.fd = TAKE_FD(fd);
	*ret = made;
	return 0;
}

void control_listen_remove(struct control_listen *listening)
{
	struct stat st;

	if (listening->path[0] && lstat(listening->path, &st) == 0 && st.st_dev == listening->device &&
		st.st_ino == listening->inode)
		unlink(listening->path);
	listening->path[0] = 0;
}
