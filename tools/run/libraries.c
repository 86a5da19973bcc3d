/* SPDX-License-Identifier: MIT */
#include "libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_LIBRARIES 4096 /* lines that are read; the linker's own limit is the memory */

/* Returns a stream of what the dynamic linker prints, or NULL. */
static FILE *start(const char *linker, const char *program, pid_t *child)
{
	char *const words[] = {(char *)linker, (char *)"--list", (char *)program, NULL};
	posix_spawn_file_actions_t actions;
	FILE *stream = NULL;
	int ends[2];
	bool runs;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	if (posix_spawn_file_actions_init(&actions) != 0) {
		close(ends[0]);
		close(ends[1]);
		return NULL;
	}
	runs = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
	       posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY,
						0) == 0 &&
	       posix_spawn(child, linker, &actions, NULL, words, environ) == 0;
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (runs)
		stream = fdopen(ends[0], "r");
	if (!stream)
		close(ends[0]);
	if (runs && !stream)
		waitpid(*child, NULL, 0);
	return stream;
}

/* The path in a line: "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)". NULL if it has none, as the
 * line of the vDSO and of a library that is not found. */
static char *path_of(char *line)
{
	char *arrow = strstr(line, " => "), *end;

	line = arrow ? arrow + 4 : line + strspn(line, "\t ");
	end = strstr(line, " (0x");
	if (!end || !memchr(line, '/', (size_t)(end - line)))
		return NULL;
	*end = 0;
	return line;
}

void run_libraries(const char *linker, const char *program, run_library_fn *fn, void *arg)
{
	char path[PATH_MAX + 2], *line = NULL, *library;
	size_t size = 0;
	FILE *stream;
	pid_t child;

	/* The linker would take a path that begins with a dash for an option. */
	snprintf(path, sizeof path, "%s%s", *program == '/' ? "" : "./", program);
	stream = start(linker, path, &child);
	if (!stream)
		return;
	for (int i = 0; i < MOST_LIBRARIES && getline(&line, &size, stream) > 0; i++)
		if ((library = path_of(line)))
			fn(library, arg);
	free(line);
	fclose(stream);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}
