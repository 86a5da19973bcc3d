/* SPDX-License-Identifier: MIT */
#include "net/unix_path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/task.h>

#include "io/sys.h"
#include "net/unix_sys.h"

/* How long to wait for the lock, and how often to try. */
#define LOCK_NS 1000000000
#define LOCK_STEP_NS 2000000

/* How often to bind: a file can appear and vanish between two calls, but hardly so often in a
 * row. */
#define MOST_TRIES 8

/* ---- the lock ---- */

static int open_directory_of(const char *path)
{
	char directory[sizeof((struct sockaddr_un *)NULL)->sun_path];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;

	if (!slash)
		return sn_unix_sys_open_directory(".");
	if (length == 0)
		return sn_unix_sys_open_directory("/");
	memcpy(directory, path, length);
	directory[length] = 0;
	return sn_unix_sys_open_directory(directory);
}

/* Locks the directory of the path. Returns 0, with a descriptor that holds the lock, or -1 in its
 * place if the lock cannot be had; or the reason for which the task's scope was cancelled. */
static int lock_directory(int *lock, const char *path)
{
	const int64_t until = sn_now() + LOCK_NS;
	int fd = open_directory_of(path), err, reason = 0;

	*lock = -1;
	if (fd < 0)
		return 0;
	while ((err = sn_unix_sys_lock(fd)) == -EWOULDBLOCK && reason == 0 && sn_now() < until)
		reason = sn_sleep(LOCK_STEP_NS);
	if (err == 0)
		*lock = fd;
	else
		sn_sys_close(fd);
	return err < 0 ? reason : 0;
}

/* Unlocks before it closes the descriptor, because a child that was forked in between has it too,
 * and would keep the lock. */
static void unlock_directory(int lock)
{
	if (lock < 0)
		return;
	sn_unix_sys_unlock(lock);
	sn_sys_close(lock);
}

/* ---- removing ---- */

/* Whether the path leads to that file. Returns 1 or 0, or an error. */
static int leads_to(const char *path, dev_t device, ino_t inode)
{
	struct stat st;
	int err = sn_unix_sys_lstat(path, &st);

	if (err < 0)
		return err == -ENOENT ? 0 : err;
	return st.st_dev == device && st.st_ino == inode;
}

/* Whether no process has the socket of that path open. Returns 1 or 0, or an error. */
static int is_stale(const struct sn_unix_name *name)
{
	int fd = sn_unix_sys_socket(SOCK_DGRAM), err;

	if (fd < 0)
		return fd;
	err = sn_unix_sys_connect(fd, name);
	sn_sys_close(fd);
	return err == -ECONNREFUSED;
}

/* Removes the file at the path if it is stale. pin refers to it. Returns as remove_stale(). */
static int remove_pinned(const struct sn_unix_name *name, int pin)
{
	const char *path = name->address.sun_path;
	struct stat st;
	int err = sn_unix_sys_fstat(pin, &st);

	if (err < 0)
		return err;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	err = is_stale(name);
	if (err <= 0)
		return err < 0 ? err : leads_to(path, st.st_dev, st.st_ino) ? -EADDRINUSE : 0;
	err = leads_to(path, st.st_dev, st.st_ino);
	if (err > 0)
		err = sn_unix_sys_unlink(path);
	return err == -ENOENT ? 0 : err;
}

/* Returns 0 if the bind can be tried again, because a stale file was removed or another file has
 * vanished; -EADDRINUSE, or another error. */
static int remove_stale(const struct sn_unix_name *name)
{
	int pin = sn_unix_sys_pin(name->address.sun_path), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	err = remove_pinned(name, pin);
	sn_sys_close(pin);
	return err;
}

void sn_unix_path_remove(struct sn_unix_path *path)
{
	if (atomic_exchange(&path->made, false) && path->owner == getpid() &&
	    leads_to(path->path, path->device, path->inode) > 0)
		sn_unix_sys_unlink(path->path);
}

/* ---- making ---- */

static int bind_fresh(int fd, const struct sn_unix_name *name)
{
	int err = -EADDRINUSE;

	for (int i = 0; i < MOST_TRIES && err == -EADDRINUSE; i++) {
		err = sn_unix_sys_bind(fd, name);
		if (err == -EADDRINUSE) {
			err = remove_stale(name);
			if (err < 0)
				return err;
			err = -EADDRINUSE;
		}
	}
	return err;
}

/* Notes the file of a socket that is bound, and gives the file its mode. */
static int note(struct sn_unix_path *made, const char *path, int mode)
{
	struct stat st;
	int err = sn_unix_sys_lstat(path, &st);

	if (err < 0 || !S_ISSOCK(st.st_mode))
		return err == -ENOENT ? 0 : err;
	strcpy(made->path, path);
	made->owner = getpid();
	made->device = st.st_dev;
	made->inode = st.st_ino;
	atomic_store(&made->made, true);
	return mode && (int)(st.st_mode & 0777) != mode ? sn_unix_sys_chmod(path, (mode_t)mode) : 0;
}

/* Called with the directory locked, if possible. */
static int bind_path(struct sn_unix_path *made, int fd, const struct sn_unix_name *name, int mode,
		     bool listens)
{
	int err = bind_fresh(fd, name);

	if (err < 0)
		return err;
	err = note(made, name->address.sun_path, mode);
	if (err == 0 && listens)
		err = sn_unix_sys_listen(fd);
	if (err < 0)
		sn_unix_path_remove(made);
	return err;
}

int sn_unix_path_bind(struct sn_unix_path **out, int fd, const struct sn_unix_name *name, int mode,
		      bool listens)
{
	struct sn_unix_path *made = calloc(1, sizeof *made);
	int lock = -1, err = made ? 0 : -ENOMEM;

	if (err == 0 && mode)
		err = sn_unix_sys_fchmod(fd, (mode_t)mode);
	if (err == 0)
		err = lock_directory(&lock, name->address.sun_path);
	if (err == 0)
		err = bind_path(made, fd, name, mode, listens);
	unlock_directory(lock);
	if (err < 0) {
		free(made);
		return err;
	}
	*out = made;
	return 0;
}

int sn_unix_path_check(const struct sn_unix_path *path)
{
	int there = leads_to(path->path, path->device, path->inode);

	return there < 0 ? there : there ? 0 : -ENOENT;
}

int sn_unix_path_note(struct sn_unix_path **out, const struct sn_unix_name *name)
{
	char path[sizeof name->address.sun_path];
	struct sn_unix_path *noted;
	int err = sn_unix_name_print(name, path, sizeof path);

	if (err < 0)
		return err;
	noted = calloc(1, sizeof *noted);
	if (!noted)
		return -ENOMEM;
	err = note(noted, path, 0);
	if (err == 0 && !atomic_load(&noted->made))
		err = -ENOENT;
	if (err < 0)
		free(noted);
	else
		*out = noted;
	return err;
}
