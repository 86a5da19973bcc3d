/* SPDX-License-Identifier: MIT */
/*
 * sennit-run: runs a program that does not know sennit, with its threads as tasks.
 *
 * Contract. If the program can be run with tasks (program.h), it is executed in this process with
 * the libraries of sennit preloaded, so its status, signals and descriptors are its own. Otherwise
 * stderr says why, and the status is 125 to 127. Nothing else is printed, except by --check, which
 * names libraries with thread-local variables.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <sennit/base.h>

#include "elf.h"
#include "program.h"

static const char usage[] =
	"Usage: sennit-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	"       sennit-run --check PROGRAM\n"
	"Run a dynamically linked program with its threads as tasks of sennit.\n"
	"\n"
	"  -p, --processors N  run tasks on N processors (default: the usable CPUs)\n"
	"  -s, --stack SIZE    stack of threads that ask for no size, as in 256K or 1M\n"
	"      --stats         say on stderr at the end what became of the threads\n"
	"  -q, --quiet         do not report libraries with thread-local variables\n"
	"  -f, --force         run a program that calls pthread_cancel(), setfsuid() or\n"
	"                      the like, or has thread-local variables of its own or of\n"
	"                      known libraries\n"
	"  -c, --check         only say whether the program can be run with tasks\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n"
	"\n"
	"Exit status: the program's; 125 if it cannot be run with tasks, or an option is\n"
	"wrong; 126 if it cannot be executed; 127 if it is not found.\n";

struct options {
	const char *processors;
	size_t stack;
	bool stats, quiet, force, check, main;
};

enum { STATS = 256, MAIN };

static const struct option long_options[] = {
	{"processors", required_argument, NULL, 'p'},
	{"stack", required_argument, NULL, 's'},
	{"stats", no_argument, NULL, STATS},
	{"quiet", no_argument, NULL, 'q'},
	{"force", no_argument, NULL, 'f'},
	{"check", no_argument, NULL, 'c'},
	{"main", no_argument, NULL, MAIN}, /* main() is a task, too: for tests of the hooks */
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static _Noreturn void wrong(const char *option, const char *value, const char *expected)
{
	fprintf(stderr, "sennit-run: --%s=%s: expected %s\n", option, value, expected);
	exit(RUN_REFUSED);
}

static unsigned long number(const char *text, char **end)
{
	errno = 0;
	return *text >= '0' && *text <= '9' ? strtoul(text, end, 10) : 0;
}

static const char *read_processors(const char *text)
{
	char *end = NULL;
	const unsigned long n = number(text, &end);

	if (n < 1 || n > 1024 || *end)
		wrong("processors", text, "1 to 1024");
	return text;
}

static size_t read_size(const char *text)
{
	const size_t most = (size_t)(sizeof(void *) == 8 ? 1 << 30 : 64 << 20);
	char *end = NULL;
	unsigned long n = number(text, &end);
	int shift = 0;

	if (end && (*end == 'K' || *end == 'k'))
		shift = 10;
	else if (end && (*end == 'M' || *end == 'm'))
		shift = 20;
	else if (end && (*end == 'G' || *end == 'g'))
		shift = 30;
	if (!end || errno || (shift && end[1]) || (!shift && *end) || n > most >> shift ||
	    n << shift < 16384)
		wrong("stack", text, sizeof(void *) == 8 ? "16K to 1G" : "16K to 64M");
	return n << shift;
}

static struct options read_options(int argc, char **argv)
{
	struct options options = {0};
	int option;

	/* +: what follows the program's name is the program's. */
	while ((option = getopt_long(argc, argv, "+p:s:qfcVh", long_options, NULL)) != -1) {
		switch (option) {
		case 'p':
			options.processors = read_processors(optarg);
			break;
		case 's':
			options.stack = read_size(optarg);
			break;
		case STATS:
			options.stats = true;
			break;
		case 'q':
			options.quiet = true;
			break;
		case 'f':
			options.force = true;
			break;
		case 'c':
			options.check = true;
			break;
		case MAIN:
			options.main = true;
			break;
		case 'V':
			printf("sennit-run %d.%d.%d\n", SN_VERSION_MAJOR, SN_VERSION_MINOR,
			       SN_VERSION_PATCH);
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs("Try 'sennit-run --help'.\n", stderr);
			exit(RUN_REFUSED);
		}
	}
	if (optind >= argc) { /* an old kernel passes on an empty argv */
		fputs("sennit-run: no program is given\nTry 'sennit-run --help'.\n", stderr);
		exit(RUN_REFUSED);
	}
	return options;
}

/* ---- the libraries ---- */

/* The library for programs, the hooks, and the runtime, which both of them need. The dynamic linker
 * ignores a library of LD_PRELOAD that is missing, or whose own library is, so all must be
 * there. */
enum { RUN, HOOKS, RUNTIME, LIBRARIES };

/* Where they are, from the folder of this program: installed, and in the build. */
static const char *const places[][LIBRARIES] = {
	{SENNIT_RUN_INSTALLED "/sennit/libsennit-run.so",
	 SENNIT_RUN_INSTALLED "/" SENNIT_HOOKS_NAME, SENNIT_RUN_INSTALLED "/" SENNIT_RUNTIME_NAME},
	{"libsennit-run.so", "../../src/hooks/" SENNIT_HOOKS_NAME,
	 "../../src/" SENNIT_RUNTIME_NAME},
};

/* Writes the paths of a place's libraries. Returns LIBRARIES, or the first that is missing. */
static int find_libraries(const char *folder, const char *const *place,
			  char paths[LIBRARIES][2 * PATH_MAX])
{
	for (int i = 0; i < LIBRARIES; i++) {
		/* An absolute folder of libraries is used as it is. */
		snprintf(paths[i], sizeof paths[i], "%s%s", place[i][0] == '/' ? "" : folder,
			 place[i]);
		if (access(paths[i], R_OK) < 0)
			return i;
	}
	return LIBRARIES;
}

static bool is_elf(const char *path)
{
	struct run_elf elf;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum run_elf_error error;

	if (fd < 0)
		return false;
	error = run_elf_read(fd, &elf);
	run_elf_free(&elf);
	close(fd);
	errno = ENOEXEC;
	return error == RUN_ELF_OK;
}

/*
 * Writes a path in the folder of this program. Returns whether it is known. The kernel's link is
 * read and not followed, because the file may be deleted. Without /proc, as in some chroots, it is
 * the path by which the program was executed, unless that is a script whose interpreter it is.
 */
static bool find_self(char path[PATH_MAX])
{
	const char *executed = (const char *)getauxval(AT_EXECFN);
	const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n > 0 && path[0] == '/') {
		path[n] = 0;
		return true;
	}
	return executed && realpath(executed, path) && is_elf(path);
}

/* Returns LD_PRELOAD for the program, or NULL after a line on stderr. */
static char *preload(const char *former)
{
	static char value[8 * PATH_MAX], paths[LIBRARIES][2 * PATH_MAX];
	const char *run = paths[RUN], *hooks = paths[HOOKS];
	int missing = LIBRARIES;
	char self[PATH_MAX];

	if (!find_self(self)) {
		fprintf(stderr, "sennit-run: its own path is not known: %s\n", strerror(errno));
		return NULL;
	}
	strrchr(self, '/')[1] = 0;
	/* The installed ones last, so that a message names a file of theirs. */
	for (size_t i = sizeof places / sizeof *places; i-- > 0;) {
		missing = find_libraries(self, places[i], paths);
		if (missing != LIBRARIES)
			continue;
		if (strpbrk(run, " :") || strpbrk(hooks, " :")) {
			fprintf(stderr,
				"sennit-run: %s: LD_PRELOAD cannot name a path with a space or a "
				"colon\n",
				run);
			return NULL;
		}
		if (snprintf(value, sizeof value, "%s:%s%s%s", run, hooks,
			     former && *former ? ":" : "",
			     former ? former : "") < (int)sizeof value)
			return value;
		fprintf(stderr, "sennit-run: LD_PRELOAD is too long\n");
		return NULL;
	}
	fprintf(stderr, "sennit-run: %s: %s, so its libraries cannot be preloaded\n",
		paths[missing], strerror(errno));
	return NULL;
}

static bool set(const char *name, const char *value)
{
	if (setenv(name, value, 1) == 0)
		return true;
	fprintf(stderr, "sennit-run: %s: %s\n", name, strerror(errno));
	return false;
}

/* The library removes all of it before main() begins. */
static bool set_environment(const struct options *options)
{
	const char *former = getenv("LD_PRELOAD");
	char words[128], *libraries = preload(former);

	snprintf(words, sizeof words, "stack=%zu,processors=%s%s%s%s%s", options->stack,
		 options->processors ? options->processors : "0", options->stats ? ",stats" : "",
		 options->quiet ? ",quiet" : "", options->force ? ",force" : "",
		 options->main ? ",main" : "");
	return libraries && set("SENNIT_RUN_PRELOAD", former ? former : "") &&
	       set("SENNIT_RUN", words) && set("LD_PRELOAD", libraries);
}

/* ---- the program ---- */

/* argv: from the program's name on. Before it there is at least one word, this program's name. */
static void run(const struct run_verdict *verdict, char **argv)
{
	if (!*verdict->interpreter) {
		execv(verdict->path, argv);
		return;
	}
	argv[0] = (char *)verdict->path;
	argv[-1] = (char *)verdict->interpreter;
	execv(verdict->interpreter, argv - 1);
}

int main(int argc, char **argv)
{
	const struct options options = read_options(argc, argv);
	static struct run_verdict verdict;

	run_judge(argv[optind], &verdict);
	if (options.check && !options.quiet)
		fputs(verdict.notes, stderr);
	if (verdict.status && !(verdict.forcible && options.force)) {
		fprintf(stderr, "sennit-run: %s%s\n", verdict.reason,
			verdict.forcible ? " (--force runs it all the same)" : "");
		return verdict.status;
	}
	if (options.check)
		return 0;
	if (!set_environment(&options))
		return RUN_REFUSED;
	run(&verdict, argv + optind);
	fprintf(stderr, "sennit-run: %s: %s\n", verdict.path, strerror(errno));
	return errno == ENOENT ? RUN_NOT_FOUND : RUN_NO_PROGRAM;
}
