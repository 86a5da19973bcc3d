/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf.h"
#include "libraries.h"
#include "locals.h"

#define MOST_INTERPRETERS 4 /* of each other: the kernel's limit is similar */

/* Writes the verdict, once. */
__attribute__((format(printf, 3, 4))) static void refuse(struct run_verdict *verdict, int status,
							 const char *format, ...)
{
	va_list list;

	verdict->status = status;
	va_start(list, format);
	vsnprintf(verdict->reason, sizeof verdict->reason, format, list);
	va_end(list);
}

/* ---- finding it ---- */

/* Returns 0 if the file can be executed, or the status. */
static int try_path(const char *path)
{
	struct stat about;

	if (stat(path, &about) < 0)
		return RUN_NOT_FOUND;
	return S_ISREG(about.st_mode) && access(path, X_OK) == 0 ? 0 : RUN_NO_PROGRAM;
}

/* Writes the first path at which the name can be executed. Returns 0 or the status. */
static int find_program(const char *name, char *path)
{
	const char *folders = getenv("PATH");
	int status = RUN_NOT_FOUND;

	if (strlen(name) >= PATH_MAX)
		return RUN_NOT_FOUND;
	strcpy(path, name);
	if (strchr(name, '/') || !*name)
		return try_path(path);
	folders = folders && *folders ? folders : "/bin:/usr/bin";
	for (const char *end; status != 0; folders = end + 1) {
		char candidate[PATH_MAX];
		int found;

		end = strchrnul(folders, ':');
		if (snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(end - folders),
			     end == folders ? "." : folders, name) < (int)sizeof candidate &&
		    (found = try_path(candidate)) != RUN_NOT_FOUND) {
			status = found;
			strcpy(path, candidate);
		}
		if (!*end)
			break;
	}
	return status;
}

/* ---- what it is ---- */

/* The interpreter of a script: the first word after #!, and what follows it. Returns false if the
 * file is not a script. */
static bool read_script(int fd, char *words, size_t size, char **interpreter, char **rest)
{
	const ssize_t n = pread(fd, words, size - 1, 0);

	if (n < 3 || words[0] != '#' || words[1] != '!')
		return false;
	words[n] = 0;
	words[strcspn(words, "\n")] = 0;
	*interpreter = words + 2 + strspn(words + 2, " \t");
	*rest = *interpreter + strcspn(*interpreter, " \t");
	if (**rest)
		*(*rest)++ = 0;
	*rest += strspn(*rest, " \t");
	for (size_t length = strlen(*rest); length && strchr(" \t\r", (*rest)[length - 1]);)
		(*rest)[--length] = 0;
	return **interpreter != 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Notes a library that has thread-local variables, and refuses the program if they are fatal. With
 * a key of its own, the library may free them in the key's destructor, which is called when the
 * task ends that has the value, not when the thread does. */
static void judge_library(const char *path, void *arg)
{
	const char *name = last_part(path);
	struct run_verdict *verdict = arg;
	struct run_elf elf;
	size_t used;
	int fd;

	if (run_locals_are_harmless(name))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (run_elf_read(fd, &elf) == RUN_ELF_OK && elf.locals) {
		used = strlen(verdict->notes);
		snprintf(verdict->notes + used, sizeof verdict->notes - used,
			 "sennit-run: %s has thread-local variables, which tasks on the same "
			 "thread share%s\n",
			 name,
			 run_elf_names(&elf, "pthread_key_create")
				 ? ", and which the end of a task may free"
				 : "");
		if (run_locals_are_fatal(name) && !verdict->status) {
			verdict->forcible = true;
			refuse(verdict, RUN_REFUSED,
			       "%s: it uses %s, which keeps state for each thread that tasks on "
			       "the same thread would share",
			       verdict->path, name);
		}
	}
	run_elf_free(&elf);
	close(fd);
}

/* Calls that change the rights of the calling thread, or what it sees of the system. A server that
 * takes on the identity of a client also needs calls that have no function for a thread in the C
 * library, such as setgroups(): it makes those by syscall(), where nothing keeps them from the
 * other tasks of the thread (library/apart.c). */
static const char *const calls_of_thread[] = {"setfsuid", "setfsgid", "unshare", "setns"};

/* Returns the first of them that the program imports, or NULL. */
static const char *call_of_thread(const struct run_elf *elf)
{
	for (size_t i = 0; i < sizeof calls_of_thread / sizeof *calls_of_thread; i++)
		if (run_elf_names(elf, calls_of_thread[i]))
			return calls_of_thread[i];
	return NULL;
}

static void judge_elf(const char *path, const struct run_elf *elf, struct run_verdict *verdict)
{
	if (!elf->dynamic || !*elf->interpreter) {
		refuse(verdict, RUN_REFUSED,
		       "%s: it is linked statically, so no library can be put "
		       "before its C library",
		       path);
	} else if (strcmp(last_part(elf->interpreter), last_part(run_elf_own_linker())) != 0) {
		refuse(verdict, RUN_REFUSED,
		       "%s: it is for another C library: its dynamic linker is "
		       "%s, and that of sennit-run %s",
		       path, last_part(elf->interpreter), last_part(run_elf_own_linker()));
	} else if (run_elf_names_beginning(elf, "libsennit.so")) {
		refuse(verdict, RUN_REFUSED, "%s: it uses sennit itself", path);
	} else if (run_elf_names(elf, "pthread_cancel")) {
		verdict->forcible = true;
		refuse(verdict, RUN_REFUSED,
		       "%s: it calls pthread_cancel(), and a task cannot be "
		       "cancelled",
		       path);
	} else if (call_of_thread(elf)) {
		verdict->forcible = true;
		refuse(verdict, RUN_REFUSED,
		       "%s: it calls %s(), which changes the rights or the view of a "
		       "thread, and tasks share threads",
		       path, call_of_thread(elf));
	} else if (elf->locals) {
		verdict->forcible = true;
		refuse(verdict, RUN_REFUSED,
		       "%s: it has thread-local variables of its own, which "
		       "tasks on the same thread would share",
		       path);
	}
	if (!verdict->status || verdict->forcible)
		run_libraries(run_elf_own_linker(), path, judge_library, verdict);
}

static void judge_file(const char *path, int fd, struct run_verdict *verdict, int depth);

static void judge_path(const char *path, struct run_verdict *verdict, int depth)
{
	/* A FIFO would wait for a writer. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	/* A file that may be executed and not read cannot be judged. */
	if (fd < 0) {
		refuse(verdict, errno == ENOENT ? RUN_NOT_FOUND : RUN_NO_PROGRAM, "%s: %s", path,
		       strerror(errno));
		return;
	}
	judge_file(path, fd, verdict, depth);
	close(fd);
}

/* A script is judged by its interpreter. If that is env(1), sennit-run looks up the program and
 * executes it itself, because env(1) would be adopted, and the program that it executes would not.
 * An interpreter that is itself a script for env(1) is refused: its program would have to get the
 * paths of both scripts. */
static void judge_script(const char *path, const char *interpreter, const char *rest,
			 struct run_verdict *verdict, int depth)
{
	int status;

	if (depth == MOST_INTERPRETERS) {
		refuse(verdict, RUN_NO_PROGRAM, "%s: too many interpreters", path);
		return;
	}
	if (strcmp(last_part(interpreter), "env") != 0) {
		judge_path(interpreter, verdict, depth + 1);
		return;
	}
	if (!*rest || strchr("-", *rest) || strpbrk(rest, " \t=")) {
		refuse(verdict, RUN_REFUSED,
		       "%s: start the script's interpreter by its name, because "
		       "env has arguments here: %s",
		       path, rest);
		return;
	}
	if (depth > 0) {
		refuse(verdict, RUN_REFUSED,
		       "%s: it is the interpreter of a script, and is itself a script for env; "
		       "start it by its name",
		       path);
		return;
	}
	status = find_program(rest, verdict->interpreter);
	if (status)
		refuse(verdict, status, "%s: its interpreter %s %s", path, rest,
		       status == RUN_NOT_FOUND ? "is not found" : "cannot be executed");
	else
		judge_path(verdict->interpreter, verdict, depth + 1);
}

static void judge_file(const char *path, int fd, struct run_verdict *verdict, int depth)
{
	char words[PATH_MAX], *interpreter, *rest;
	enum run_elf_error error;
	struct stat about;
	struct run_elf elf;

	if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode)) {
		refuse(verdict, RUN_NO_PROGRAM, "%s: it is no regular file", path);
		return;
	}
	/* The kernel ignores the rights that a script's file would give. */
	if (read_script(fd, words, sizeof words, &interpreter, &rest)) {
		judge_script(path, interpreter, rest, verdict, depth);
		return;
	}
	if (about.st_mode & (S_ISUID | S_ISGID)) {
		refuse(verdict, RUN_REFUSED,
		       "%s: it is set-user-ID or set-group-ID, and the dynamic "
		       "linker ignores LD_PRELOAD for it",
		       path);
		return;
	}
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0) {
		refuse(verdict, RUN_REFUSED,
		       "%s: the file has capabilities, and the dynamic linker "
		       "ignores LD_PRELOAD for it",
		       path);
		return;
	}
	error = run_elf_read(fd, &elf);
	if (error == RUN_ELF_OK)
		judge_elf(path, &elf, verdict);
	else if (error == RUN_ELF_FOREIGN)
		refuse(verdict, RUN_REFUSED, "%s: it is for another architecture than sennit-run",
		       path);
	else if (error == RUN_ELF_NO_MEMORY)
		refuse(verdict, RUN_REFUSED, "%s: no memory", path);
	else
		refuse(verdict, RUN_NO_PROGRAM,
		       error == RUN_ELF_NOT_ELF ? "%s: it is neither an ELF program nor a script"
						: "%s: its ELF headers contradict each other",
		       path);
	run_elf_free(&elf);
}

void run_judge(const char *name, struct run_verdict *verdict)
{
	memset(verdict, 0, sizeof *verdict);
	verdict->status = find_program(name, verdict->path);
	if (verdict->status == RUN_NOT_FOUND)
		refuse(verdict, RUN_NOT_FOUND, "%s: not found", name);
	else if (verdict->status == RUN_NO_PROGRAM)
		refuse(verdict, RUN_NO_PROGRAM, "%s: it cannot be executed", verdict->path);
	else
		judge_path(verdict->path, verdict, 0);
}
