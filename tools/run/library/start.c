/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of a program under sennit-run.
 *
 * Contract. SENNIT_RUN has the launcher's options, as words between commas: stats, quiet, force,
 * main, stack=BYTES, and processors=N. SENNIT_RUN_PRELOAD has the previous LD_PRELOAD. Before
 * main() begins both are removed and LD_PRELOAD has its previous value, so that the program's
 * children are not adopted. Without SENNIT_RUN, when a user preloads the libraries, the environment
 * stays.
 *
 * When the first thread is created, stderr names the libraries that have thread-local variables. If
 * one of them cannot work with tasks (locals.h), the program ends with the launcher's status for
 * that, unless `force` is among the options. Most such programs were refused before they began: the
 * others have loaded the library by dlopen().
 */
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sennit/hooks.h>

#include "../locals.h"
#include "../program.h"
#include "adopted.h"

struct sn_run_options sn_run_options;

static bool is_forced = true; /* without the launcher, the user has decided */

static struct {
	sn_run_main_fn *main;
	int argc;
	char **argv;
} program;

static pid_t first_process;

/* ---- options ---- */

static void read_options(void)
{
	const char *given = getenv("SENNIT_RUN"), *preload = getenv("SENNIT_RUN_PRELOAD");
	char words[128], *rest = words;

	if (!given)
		return;
	snprintf(words, sizeof words, "%s", given);
	is_forced = false;
	sn_run_options.launched = true;
	for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
		if (strcmp(word, "main") == 0)
			sn_run_options.main = true;
		else if (strcmp(word, "quiet") == 0)
			sn_run_options.quiet = true;
		else if (strcmp(word, "force") == 0)
			is_forced = true;
		else if (strcmp(word, "stats") == 0)
			sn_run_options.stats = true;
		else if (strncmp(word, "stack=", 6) == 0)
			sn_run_options.stack_size = strtoul(word + 6, NULL, 10);
		else if (strncmp(word, "processors=", 11) == 0)
			sn_run_options.processors = (int)strtoul(word + 11, NULL, 10);
	}
	if (preload && *preload)
		setenv("LD_PRELOAD", preload, 1);
	else
		unsetenv("LD_PRELOAD");
	unsetenv("SENNIT_RUN_PRELOAD");
	unsetenv("SENNIT_RUN");
}

/* ---- thread-locals of libraries ---- */

static int report_locals(struct dl_phdr_info *info, size_t size, void *first)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) || !info->dlpi_tls_modid)
		return 0;
	if (*(bool *)first)
		name = "the program itself";
	else if (run_locals_are_harmless(name))
		return 0;
	else if (run_locals_are_fatal(name) && !is_forced) {
		dprintf(STDERR_FILENO,
			"sennit-run: the program has loaded %s, which keeps state for each thread "
			"that tasks on the same thread would share (--force runs it all the "
			"same)\n",
			name);
		_exit(RUN_REFUSED);
	}
	if (!sn_run_options.quiet)
		dprintf(STDERR_FILENO,
			"sennit-run: %s has thread-local variables, which tasks on the same thread "
			"share\n",
			name);
	return 0;
}

static int report_each(struct dl_phdr_info *info, size_t size, void *first)
{
	const int result = report_locals(info, size, first);

	*(bool *)first = false;
	return result;
}

void sn_run_report_locals(void)
{
	bool first = true;

	dl_iterate_phdr(report_each, &first);
}

/* ---- the end ---- */

/* stderr, which some programs close before they end. Its number is above those that programs
 * expect of their own descriptors. */
static int report_to = STDERR_FILENO;
static struct stat stderr_was;

static void keep_stderr(void)
{
	const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);

	if (fd >= 0)
		report_to = fd;
	fstat(report_to, &stderr_was);
}

/* A program that closes all descriptors may have a file or a connection of that number now. */
static bool is_still_stderr(void)
{
	struct stat now;

	return fstat(report_to, &now) == 0 && now.st_dev == stderr_was.st_dev &&
	       now.st_ino == stderr_was.st_ino;
}

static void report(void)
{
	struct sn_hooks_stats hooks = SN_HOOKS_STATS_INIT();
	struct sn_run_stats run = SN_RUN_STATS_INIT();

	if (getpid() != first_process || !is_still_stderr())
		return;
	sn_hooks_stats(&hooks);
	sn_world_enter();
	sn_run_stats(&run);
	sn_world_leave();
	dprintf(report_to,
		"sennit-run: threads that became tasks: %" PRIu64 ", alive now: %" PRIu64
		", that did not: %" PRIu64 "\n"
		"sennit-run: threads of the runtime: %" PRIu64 ", processors: %" PRIu64
		", stacks: %" PRIu64 "\n"
		"sennit-run: calls parked: %" PRIu64 ", moved to another thread: %" PRIu64 "\n"
		"sennit-run: calls that blocked a thread: %" PRIu64 " with a lock held, %" PRIu64
		" in a signal handler or with signals blocked, %" PRIu64 " others\n",
		atomic_load(&sn_run_counts.adopted), atomic_load(&sn_run_counts.alive),
		atomic_load(&sn_run_counts.real), run.threads, run.processors, run.stacks_mapped,
		hooks.parked + atomic_load(&sn_run_counts.parked), hooks.moved, hooks.passed_held,
		hooks.passed_mask, hooks.passed_busy + hooks.passed_other);
}

/* ---- main() ---- */

static void *call_main(void *arg)
{
	(void)arg;
	exit(program.main(program.argc, program.argv, environ));
}

static int main_task(void *arg)
{
	struct sn_adopted *thread = arg;

	sn_hooks_set(SN_HOOKS_ON);
	sn_adopted_run(thread); /* returns after pthread_exit() only */
	sn_run_exit_last();
}

static int run_main(int argc, char **argv, char **envp)
{
	struct sn_adopted *thread;

	(void)envp;
	read_options();
	sn_run_make_settings();
	first_process = getpid();
	sn_world_is_ours();
	sn_run_watch_forks();
	if (sn_run_options.stats) {
		keep_stderr();
		atexit(report);
	}
	program.argc = argc;
	program.argv = argv;
	thread = sn_run_options.main ? sn_adopted_take() : NULL;
	if (!thread)
		return program.main(argc, argv, environ);
	sn_adopted_take_values(thread);
	atomic_fetch_add(&sn_run_counts.alive, 1);
	sn_run_thread_begins();
	thread->start = call_main;
	return sn_world_run_main(main_task, thread);
}

SN_RUN_EXPORT int __libc_start_main(sn_run_main_fn *main, int argc, char **argv, void (*init)(void),
				    void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	program.main = main;
	return sn_run_real()->__libc_start_main(run_main, argc, argv, init, fini, loader_fini,
						stack_end);
}
