/* SPDX-License-Identifier: MIT */
#include "base/quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sn_quota_mount {
	struct sn_quota_mount *next;
	bool is_v1;
	char *root;  /* the group that is mounted */
	char *point; /* the directory at which it is mounted */
};

/* ---- mounts ---- */

/* Whether a list whose items are separated by commas has the word. */
static bool has_word(const char *list, const char *word)
{
	const size_t length = strlen(word);

	for (; *list; list += *list == ',') {
		const size_t n = strcspn(list, ",\n");

		if (n == length && strncmp(list, word, n) == 0)
			return true;
		list += n;
		if (*list == '\n')
			break;
	}
	return false;
}

/* A copy of a path in which the kernel has written spaces, tabs, newlines and backslashes as \ and
 * three octal digits; NULL if there is no memory. */
static char *decoded(const char *text)
{
	char *copy = malloc(strlen(text) + 1), *to = copy;

	while (copy && *text) {
		unsigned number;

		if (*text == '\\' && sscanf(text + 1, "%3o", &number) == 1) {
			*to++ = (char)number;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	if (copy)
		*to = 0;
	return copy;
}

/* Parses a line, whose fields are id, parent, device, root, point, options, more options, "-",
 * type, source, options of the file system. Returns NULL if the line is not about a hierarchy with
 * quotas, or if there is no memory. */
static struct sn_quota_mount *mount_of(char *line)
{
	char *rest = line, *fields[5], *type;
	const char *options;
	struct sn_quota_mount *mount;
	char *separator = strstr(line, " - ");

	if (!separator)
		return NULL;
	*separator = 0;
	for (int i = 0; i < 5; i++)
		if (!(fields[i] = strsep(&rest, " ")))
			return NULL;
	rest = separator + 3;
	type = strsep(&rest, " ");
	strsep(&rest, " ");
	options = rest ? rest : "";
	if (strcmp(type, "cgroup2") != 0 &&
	    (strcmp(type, "cgroup") != 0 || !has_word(options, "cpu")))
		return NULL;
	mount = calloc(1, sizeof *mount);
	if (!mount)
		return NULL;
	mount->is_v1 = strcmp(type, "cgroup") == 0;
	mount->root = decoded(fields[3]);
	mount->point = decoded(fields[4]);
	if (mount->root && mount->point)
		return mount;
	sn_quota_mounts_free(mount);
	return NULL;
}

struct sn_quota_mount *sn_quota_mounts_read(const char *mountinfo)
{
	struct sn_quota_mount *mounts = NULL, *mount;
	FILE *file = fopen(mountinfo, "re");
	char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		mount = mount_of(line);
		if (!mount)
			continue;
		mount->next = mounts;
		mounts = mount;
	}
	free(line);
	if (file)
		fclose(file);
	return mounts;
}

void sn_quota_mounts_free(struct sn_quota_mount *mounts)
{
	while (mounts) {
		struct sn_quota_mount *next = mounts->next;

		free(mounts->root);
		free(mounts->point);
		free(mounts);
		mounts = next;
	}
}

/* ---- quotas ---- */

/* Stores the numbers at the beginning of a file. Returns how many there are, at most two. */
static int numbers_in(const char *point, const char *group, const char *name, long numbers[2])
{
	char path[8400];
	FILE *file;
	int n;

	if (snprintf(path, sizeof path, "%s%s/%s", point, group, name) >= (int)sizeof path)
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fscanf(file, "%ld %ld", &numbers[0], &numbers[1]);
	fclose(file);
	return n;
}

/* The quota of one group in whole CPUs, 0 if it has none: "max" and -1 mean no limit. */
static long quota_of(const struct sn_quota_mount *mount, const char *group)
{
	long quota[2] = {0, 0}, period[2] = {0, 0};

	if (!mount->is_v1) {
		if (numbers_in(mount->point, group, "cpu.max", quota) != 2)
			return 0;
		period[0] = quota[1];
	} else if (numbers_in(mount->point, group, "cpu.cfs_quota_us", quota) < 1 ||
		   numbers_in(mount->point, group, "cpu.cfs_period_us", period) < 1) {
		return 0;
	}
	if (quota[0] <= 0 || period[0] <= 0)
		return 0;
	return (quota[0] - 1) / period[0] + 1;
}

static long tighter(long a, long b)
{
	return !a || (b && b < a) ? b : a;
}

/* The rest of the path after the mount's root; NULL if the path is not below that root. */
static const char *below(const struct sn_quota_mount *mount, const char *path)
{
	const size_t length = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);

	if (strncmp(path, mount->root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	path += length;
	/* "/.." means that the group is outside the namespace's root, on a path with unknown
	 * names. */
	return strncmp(path, "/..", 3) == 0 && (!path[3] || path[3] == '/') ? NULL : path;
}

/* The tightest quota of the group and of all groups above it, as far as the mount shows them. */
static long quota_along(const struct sn_quota_mount *mount, const char *path)
{
	char group[4096], *slash;
	long least = 0;

	snprintf(group, sizeof group, "%s", strcmp(path, "/") == 0 ? "" : path);
	for (;;) {
		least = tighter(least, quota_of(mount, group));
		slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

/*
 * The mounts whose root is on the path count. If there is none, the path belongs to another
 * namespace than the mounts. These then show the groups that the container's manager chose to show
 * to this process, and their limits are the best guess.
 */
static long quota_by(const struct sn_quota_mount *mounts, bool is_v1, const char *path)
{
	long quota = 0, guess = 0;
	bool is_below = false;

	for (; mounts; mounts = mounts->next) {
		const char *rest = below(mounts, path);

		if (mounts->is_v1 != is_v1)
			continue;
		is_below |= rest != NULL;
		if (rest)
			quota = tighter(quota, quota_along(mounts, rest));
		else
			guess = tighter(guess, quota_along(mounts, ""));
	}
	return is_below ? quota : guess;
}

long sn_quota_read(const struct sn_quota_mount *mounts, const char *cgroup)
{
	FILE *file = fopen(cgroup, "re");
	char *line = NULL;
	size_t room = 0;
	long least = 0;

	/* A line has the hierarchy's number, its controllers (none in version 2) and the path. */
	while (file && getline(&line, &room, file) > 0) {
		char *rest = line, *number, *controllers;
		bool is_v1;

		line[strcspn(line, "\n")] = 0;
		number = strsep(&rest, ":");
		controllers = strsep(&rest, ":");
		if (!rest)
			continue;
		is_v1 = has_word(controllers, "cpu");
		if (is_v1 || (strcmp(number, "0") == 0 && !*controllers))
			least = tighter(least, quota_by(mounts, is_v1, rest));
	}
	free(line);
	if (file)
		fclose(file);
	return least;
}
