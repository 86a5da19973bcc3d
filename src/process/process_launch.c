/* SPDX-License-Identifier: MIT */
#include "process/process_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/standard.h"

#ifndef TIOCGPTPEER
#	define TIOCGPTPEER _IO('T', 0x41)
#endif

#define FLAGS                                                                                 \
	(SN_PROCESS_NO_SEARCH | SN_PROCESS_GROUP | SN_PROCESS_SESSION | SN_PROCESS_IN_SCOPE | \
	 SN_PROCESS_IGNORED)

/* What execvp(3) uses if there is no PATH. */
#define DEFAULT_PATH "/bin:/usr/bin"

/* ---- the paths to try ---- */

/* Makes a list of n strings of up to `size` bytes each, in one piece of memory. */
static char **strings(size_t n, size_t size)
{
	char **list, *text;
	size_t bytes;

	if (__builtin_mul_overflow(n, size + sizeof *list, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof *list, &bytes))
		return NULL;
	list = malloc(bytes);
	if (!list)
		return NULL;
	text = (char *)(list + n + 1);
	for (size_t i = 0; i < n; i++)
		list[i] = text + i * size;
	list[n] = NULL;
	return list;
}

static int find_paths(struct sn_launch *launch, const char *name, uint32_t flags)
{
	const bool search = !(flags & SN_PROCESS_NO_SEARCH) && *name && !strchr(name, '/');
	const char *path = search ? getenv("PATH") : "";
	size_t n = 1;

	if (!path)
		path = DEFAULT_PATH;
	for (const char *at = path; *at; at++)
		n += *at == ':';
	launch->paths = strings(n, strlen(path) + strlen(name) + 2);
	if (!launch->paths)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const size_t length = strcspn(path, ":");

		/* An empty part of PATH is the current directory. */
		sprintf(launch->paths[i], "%.*s%s%s", (int)length, path, length ? "/" : "", name);
		path += length + 1;
	}
	launch->child.paths = (const char *const *)launch->paths;
	return 0;
}

/* ---- the environment ---- */

/* Whether an entry of the environment has the name of a change. */
static bool is_for(const char *entry, const char *change)
{
	const size_t length = strcspn(change, "=");

	return strncmp(entry, change, length) == 0 && (entry[length] == '=' || !entry[length]);
}

/* Whether one of the changes has the name of the entry. */
static bool is_changed(const char *entry, const char *const *changes)
{
	for (; *changes; changes++)
		if (is_for(entry, *changes))
			return true;
	return false;
}

static size_t count(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* The list is new if there are changes; the strings stay the caller's, or the environment's. */
static int make_environment(struct sn_launch *launch, const struct sn_process_attr *attr)
{
	const char *const *base =
		attr->environment ? attr->environment : (const char *const *)environ;
	const size_t n = count(base), m = count(attr->changes);
	const char **to;

	launch->child.environment = base;
	if (m == 0 && base)
		return 0;
	to = launch->environment = malloc((n + m + 1) * sizeof *to);
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!m || !is_changed(base[i], attr->changes))
			*to++ = base[i];
	for (size_t i = 0; i < m; i++) {
		if (*attr->changes[i] == '=' || !*attr->changes[i])
			return -EINVAL;
		/* If several changes have the same name, the last counts. */
		if (strchr(attr->changes[i], '=') &&
		    !is_changed(attr->changes[i], attr->changes + i + 1))
			*to++ = attr->changes[i];
	}
	*to = NULL;
	launch->child.environment = launch->environment;
	return 0;
}

/* ---- descriptors ---- */

/* Notes a descriptor that was opened for the child, and that the parent closes after the start. */
static int note(struct sn_launch *launch, int fd)
{
	fd = sn_above_standard(fd);
	if (fd < 0)
		return -errno;
	launch->opened[launch->opened_count++] = fd;
	return fd;
}

static int open_null(struct sn_launch *launch)
{
	if (launch->null < 0)
		launch->null = note(launch, open("/dev/null", O_RDWR | O_CLOEXEC));
	return launch->null;
}

/* Opens the child's side of a terminal, by its name if there is no TIOCGPTPEER (before Linux
 * 4.13). */
static int open_peer(int master)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
	char name[64];
	int fd = ioctl(master, TIOCGPTPEER, flags), err;

	if (fd >= 0 || errno == EMFILE || errno == ENFILE)
		return fd;
	err = ptsname_r(master, name, sizeof name);
	if (err != 0) {
		errno = err;
		return -1;
	}
	return open(name, flags);
}

static int open_terminal(struct sn_launch *launch, const struct sn_process_attr *attr)
{
	const struct winsize size = {.ws_row = attr->rows, .ws_col = attr->columns};
	int master;

	if (launch->terminal >= 0)
		return launch->terminal;
	master = sn_above_standard(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
	if (master < 0)
		return -errno;
	launch->terminal_master = master;
	if (grantpt(master) < 0 || unlockpt(master) < 0)
		return -errno;
	if ((attr->rows || attr->columns) && ioctl(master, TIOCSWINSZ, &size) < 0)
		return -errno;
	launch->terminal = note(launch, open_peer(master));
	return launch->terminal;
}

static int open_pipe(struct sn_launch *launch, int number)
{
	const int ours = number == STDIN_FILENO ? 1 : 0;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	launch->ours[number] = sn_above_standard(ends[ours]);
	if (launch->ours[number] < 0) {
		const int err = -errno;

		close(ends[1 - ours]);
		return err;
	}
	return note(launch, ends[1 - ours]);
}

/* Returns the descriptor that becomes the standard one, or an error. */
static int source_of(struct sn_launch *launch, const struct sn_process_attr *attr, int number,
		     const struct sn_process_stdio *stdio)
{
	int fd;

	switch (stdio->kind) {
	case SN_PROCESS_INHERIT:
		return number;
	case SN_PROCESS_NULL:
		return open_null(launch);
	case SN_PROCESS_PIPE:
		return open_pipe(launch, number);
	case SN_PROCESS_TERMINAL:
		fd = open_terminal(launch, attr);
		if (fd >= 0) {
			launch->ours[number] = launch->terminal_master;
			launch->child.terminal = number;
		}
		return fd;
	case SN_PROCESS_DESCRIPTOR:
		return stdio->fd < 0 ? -EBADF : stdio->fd;
	case SN_PROCESS_STDOUT:
		return number == STDERR_FILENO ? launch->child.maps[STDOUT_FILENO].source : -EINVAL;
	}
	return -EINVAL;
}

static int by_target(const void *a, const void *b)
{
	const struct sn_child_map *left = a, *right = b;

	return (left->target > right->target) - (left->target < right->target);
}

/* Adds the caller's descriptors to those of the standard ones, and orders them all by target. */
static int map_further(struct sn_child *child, const struct sn_process_attr *attr)
{
	for (size_t i = 0; i < attr->descriptor_count; i++) {
		const struct sn_process_descriptor *further = &attr->descriptors[i];

		if (further->number <= STDERR_FILENO)
			return -EINVAL;
		if (further->fd < 0)
			return -EBADF;
		child->maps[child->map_count++] =
			(struct sn_child_map){further->fd, further->number, false};
	}
	qsort(child->maps, child->map_count, sizeof *child->maps, by_target);
	for (size_t i = 1; i < child->map_count; i++)
		if (child->maps[i].target == child->maps[i - 1].target)
			return -EINVAL;
	return 0;
}

static int map_descriptors(struct sn_launch *launch, const struct sn_process_attr *attr)
{
	const struct sn_process_stdio *standard[] = {&attr->in, &attr->out, &attr->err};
	struct sn_child *child = &launch->child;
	size_t size;

	if (attr->descriptor_count && !attr->descriptors)
		return -EINVAL;
	if (__builtin_add_overflow(attr->descriptor_count, 3, &size))
		return -ENOMEM;
	child->maps = calloc(size, sizeof *child->maps);
	if (!child->maps)
		return -ENOMEM;
	for (int number = 0; number < 3; number++) {
		const enum sn_process_kind kind = standard[number]->kind;
		const int source = source_of(launch, attr, number, standard[number]);

		if (source < 0)
			return source;
		child->maps[child->map_count++] =
			(struct sn_child_map){source, number, kind == SN_PROCESS_INHERIT};
	}
	if (attr->err.kind == SN_PROCESS_STDOUT)
		child->maps[STDERR_FILENO].optional = child->maps[STDOUT_FILENO].optional;
	return map_further(child, attr);
}

/* ---- all of it ---- */

static int prepare(struct sn_launch *launch, const char *const argv[],
		   const struct sn_process_attr *attr)
{
	struct sn_child *child = &launch->child;
	int err;

	if ((attr->flags & ~FLAGS) || (attr->limit_count && !attr->limits))
		return -EINVAL;
	child->argv = argv;
	child->directory = attr->directory;
	child->limits = attr->limits;
	child->limit_count = attr->limit_count;
	child->keeps_ignored = attr->flags & SN_PROCESS_IGNORED;
	err = find_paths(launch, attr->program ? attr->program : argv[0], attr->flags);
	if (err == 0)
		err = make_environment(launch, attr);
	if (err == 0)
		err = map_descriptors(launch, attr);
	child->leads_session = child->terminal >= 0 || (attr->flags & SN_PROCESS_SESSION);
	child->leads_group = child->leads_session || (attr->flags & SN_PROCESS_GROUP);
	return err;
}

int sn_launch_prepare(struct sn_launch *launch, const char *const argv[],
		      const struct sn_process_attr *attr)
{
	int err;

	*launch = (struct sn_launch){.child.terminal = -1,
				     .child.report = -1,
				     .ours = {-1, -1, -1},
				     .null = -1,
				     .terminal = -1,
				     .terminal_master = -1};
	err = prepare(launch, argv, attr);
	if (err < 0)
		sn_launch_close(launch);
	return err;
}

void sn_launch_take_ours(struct sn_launch *launch, int ends[3])
{
	for (int number = 0; number < 3; number++) {
		ends[number] = launch->ours[number];
		for (int other = 0; other < number; other++)
			if (ends[other] == launch->ours[number])
				ends[number] = -1;
	}
	for (int number = 0; number < 3; number++)
		launch->ours[number] = -1;
	launch->terminal_master = -1;
}

void sn_launch_release(struct sn_launch *launch)
{
	for (int i = 0; i < launch->opened_count; i++)
		close(launch->opened[i]);
	launch->opened_count = 0;
	free(launch->paths);
	free(launch->environment);
	free(launch->child.maps);
	launch->paths = NULL;
	launch->environment = NULL;
	launch->child.maps = NULL;
}

void sn_launch_close(struct sn_launch *launch)
{
	sn_launch_release(launch);
	for (int number = 0; number < 3; number++) {
		if (launch->ours[number] >= 0 && launch->ours[number] != launch->terminal_master)
			close(launch->ours[number]);
		launch->ours[number] = -1;
	}
	if (launch->terminal_master >= 0)
		close(launch->terminal_master);
	launch->terminal_master = -1;
}
