/* SPDX-License-Identifier: MIT */
#include "base/tools.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arch/compiler.h"

/*
 * A program asks valgrind by a sequence of instructions that has no effect elsewhere, and differs
 * on each architecture. valgrind's header has it, if it is installed when this is built. Without
 * the header this looks for the library that valgrind loads into the program through LD_PRELOAD; it
 * finds none once the program has changed the variable.
 */
#ifndef SN_VALGRIND_HEADER
#	if defined(__has_include)
#		if __has_include(<valgrind/valgrind.h>)
#			define SN_VALGRIND_HEADER 1
#		endif
#	endif
#endif
#ifndef SN_VALGRIND_HEADER
#	define SN_VALGRIND_HEADER 0
#endif
#if SN_VALGRIND_HEADER
#	include <valgrind/valgrind.h>

static bool in_valgrind(void)
{
	return RUNNING_ON_VALGRIND > 0;
}
#else
static bool in_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "/vgpreload_");
}
#endif

/*
 * The initialisation of each sanitizer's runtime. Weak, because it exists only if the program is
 * built for that sanitizer: in the program or in a library of the sanitizer's.
 */
extern void __asan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));
extern void __lsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

/* variant is the library to link, or NULL if there is none for this tool. */
static void warn(const char *tool, const char *variant)
{
	if (variant)
		sn_log("this program runs under %s, for which this libsennit is not built: expect "
		       "false "
		       "reports, and missing ones; link %s instead (make install-variants; "
		       "pkg-config "
		       "%s; docs/tools.md)",
		       tool, variant, variant + strlen("lib"));
	else
		sn_log("this program runs under %s, for which libsennit cannot be built: expect "
		       "false "
		       "reports, and missing ones (docs/tools.md has the tools that work)",
		       tool);
}

void sn_tools_check(void)
{
	static bool reported;

	if (reported)
		return;
	reported = true;
	if (!SN_ASAN && __asan_init)
		warn("AddressSanitizer", "libsennit-asan");
	if (!SN_ASAN && __lsan_init)
		warn("LeakSanitizer alone", "libsennit-asan");
	if (!SN_TSAN && __tsan_init)
		warn("ThreadSanitizer", "libsennit-tsan");
	if (__msan_init)
		warn("MemorySanitizer", NULL);
	if (__hwasan_init)
		warn("HWAddressSanitizer", NULL);
	if (!SN_VALGRIND && in_valgrind())
		warn("valgrind", "libsennit-valgrind");
}
