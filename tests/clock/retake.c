/* SPDX-License-Identifier: MIT */
/*
 * retake COMMAND [ARGUMENT...]: runs a command that compares wall times. If the command fails, and
 * the wall clock was set while it ran, runs it again. Exits with the command's status.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_clock.h"

int main(int argc, char **argv)
{
	int status = -1;

	if (argc < 2) {
		fprintf(stderr, "usage: retake COMMAND [ARGUMENT...]\n");
		return 2;
	}
	wall_clock_was_set();
	for (int i = 0; i < RETAKES; i++) {
		pid_t child = fork();

		if (child == 0) {
			execvp(argv[1], argv + 1);
			perror(argv[1]);
			_exit(127);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0)
			return 2;
		if (status == 0 || !wall_clock_was_set())
			break;
		fprintf(stderr, "retake: the wall clock was set meanwhile\n");
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
