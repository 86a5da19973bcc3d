/* SPDX-License-Identifier: MIT */
/*
 * The first process of the tiny system in which scripts/test-arm runs a test program under a real
 * kernel: mounts /proc and /sys, runs /test with the arguments that the kernel's command line gave
 * to init, prints its exit status, and switches the machine off.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char program[] = "/test";
	struct utsname system;
	int status = -1;
	pid_t child;

	(void)argc;
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL))
		perror("init: mount");
	uname(&system);
	printf("init: %s %s %s\n", system.sysname, system.release, system.machine);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		argv[0] = program;
		execv(argv[0], argv);
		perror("init: /test");
		_exit(127);
	}
	while (waitpid(-1, &status, 0) != child)
		;
	printf("init: status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	fflush(stdout);
	tcdrain(1); /* otherwise the last line is lost */
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
