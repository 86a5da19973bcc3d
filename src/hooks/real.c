/* SPDX-License-Identifier: MIT */
#include "hooks/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/call.h"

/* True only before the constructors have run, when the program has one thread. */
static bool looking_up;

/* A sanitizer has its own replacements, in the program itself, and has to see the calls, too. */
#if SN_TSAN || SN_ASAN
#	define THEIRS(result, name, parameters, arguments) \
		extern result __interceptor_##name parameters __attribute__((weak));
SN_REAL_CALLS(THEIRS)
SN_REAL_DATABASES(THEIRS)
SN_REAL_DATABASE_VOIDS(THEIRS)
SN_REAL_LOCKS(THEIRS)
SN_REAL_VOIDS(THEIRS)
#	define NEXT(name) \
		(__interceptor_##name ? (void *)__interceptor_##name : dlsym(RTLD_NEXT, #name))
#else
#	define NEXT(name) dlsym(RTLD_NEXT, #        name)
#endif

static void look_up(void)
{
	looking_up = true;
#define LOOK_UP(result, name, parameters, arguments) \
	sn_real.name = (result(*) parameters)NEXT(name);
	SN_REAL_CALLS(LOOK_UP)
	SN_REAL_DATABASES(LOOK_UP)
	SN_REAL_DATABASE_VOIDS(LOOK_UP)
	SN_REAL_CALLS64(LOOK_UP)
	SN_REAL_LOCKS(LOOK_UP)
	SN_REAL_VOIDS(LOOK_UP)
	SN_REAL_LOCKS64(LOOK_UP)
	sn_real.fcntl = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	sn_real.fcntl64 = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
	if (!sn_real.fcntl64)
		sn_real.fcntl64 = sn_real.fcntl;
#if SN_HOOK_TIME64
	sn_real.__fcntl_time64 = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "__fcntl_time64");
#endif
	looking_up = false;
}

#define EARLY_CALL(result, name, parameters, arguments) \
	static result early_##name parameters           \
	{                                               \
		look_up();                              \
		return sn_real.name arguments;          \
	}
#define EARLY_LOCK(result, name, parameters, arguments) \
	static result early_##name parameters           \
	{                                               \
		if (looking_up)                         \
			return 0;                       \
		look_up();                              \
		return sn_real.name arguments;          \
	}
#define EARLY_VOID(result, name, parameters, arguments) \
	static result early_##name parameters           \
	{                                               \
		if (looking_up)                         \
			return;                         \
		look_up();                              \
		sn_real.name arguments;                 \
	}
SN_REAL_CALLS(EARLY_CALL)
SN_REAL_DATABASES(EARLY_CALL)
SN_REAL_DATABASE_VOIDS(EARLY_VOID)
SN_REAL_CALLS64(EARLY_CALL)
SN_REAL_LOCKS(EARLY_LOCK)
SN_REAL_VOIDS(EARLY_VOID)
SN_REAL_LOCKS64(EARLY_LOCK)

/* Constructors make no call of fcntl() that a hook would have to notice. */
static int early_fcntl(int fd, int command, ...)
{
	va_list list;
	long argument;

	va_start(list, command);
	argument = va_arg(list, long);
	va_end(list);
	look_up();
	return sn_real.fcntl(fd, command, argument);
}

#define EARLY(result, name, parameters, arguments) .name = early_##name,
struct sn_real sn_real = {
	/* clang-format off */
	SN_REAL_CALLS(EARLY)
	SN_REAL_DATABASES(EARLY)
	SN_REAL_DATABASE_VOIDS(EARLY)
	SN_REAL_CALLS64(EARLY)
	SN_REAL_LOCKS(EARLY)
	SN_REAL_VOIDS(EARLY)
	SN_REAL_LOCKS64(EARLY)
				/* clang-format on */
				.fcntl = early_fcntl,
	.fcntl64 = early_fcntl,
#if SN_HOOK_TIME64
	.__fcntl_time64 = early_fcntl,
#endif
};

__attribute__((constructor(101))) static void begin(void)
{
	const char *wish = getenv("SENNIT_HOOKS");

	look_up();
	if (!wish || !*wish || strcmp(wish, "0") == 0)
		return;
	if (strcmp(wish, "1") == 0)
		sn_hooks_set_default(SN_HOOKS_ON);
	else
		dprintf(STDERR_FILENO,
			"sennit: SENNIT_HOOKS=%.64s: expected 0 or 1; hooks are off\n", wish);
}
