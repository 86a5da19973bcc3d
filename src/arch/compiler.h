/* SPDX-License-Identifier: MIT */
/*
 * What every layer needs of the compiler, with the same names for GCC and Clang, and what the kind
 * of build decides.
 *
 * Contract. It is the lowest header: it includes none of sennit's, and every file may include it.
 * What the build decides, from SN_TSAN to SENNIT_CHECKED, is 0 or 1 in every build, so that code
 * can use it in an `if` as well as in an `#if`, and the compiler checks both branches. The
 * functions are defined in the layers above. Any thread may call them, even outside a run; none of
 * them parks.
 */
#ifndef SENNIT_ARCH_COMPILER_H
#define SENNIT_ARCH_COMPILER_H

#include <stdint.h>

#define sn_likely(x) __builtin_expect(!!(x), 1)
#define sn_unlikely(x) __builtin_expect(!!(x), 0)
#define sn_noinline __attribute__((noinline))
/* For data of another file that hot paths read: without the attribute, the code loads the address
 * from a table first. */
#define sn_hidden __attribute__((visibility("hidden")))
#define sn_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Keeps the compiler, not the machine, from moving memory accesses across this point. */
#define sn_compiler_barrier() __asm__ volatile("" ::: "memory")

/* Twice the size of a line, because x86 prefetches lines in pairs: data in neighbouring lines still
 * contends. */
#define SN_CACHE_LINE 128

#if defined(__SANITIZE_THREAD__)
#	define SN_TSAN 1
#elif defined(__has_feature)
#	if __has_feature(thread_sanitizer)
#		define SN_TSAN 1
#	endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#	define SN_ASAN 1
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer)
#		define SN_ASAN 1
#	endif
#endif
#ifndef SN_TSAN
#	define SN_TSAN 0
#endif
#ifndef SN_ASAN
#	define SN_ASAN 0
#endif
/* valgrind does not change what a compiler does, so the build sets this
 * (cmake/SennitFlags.cmake). */
#ifndef SN_VALGRIND
#	define SN_VALGRIND 0
#endif
#ifndef SENNIT_DEBUG
#	define SENNIT_DEBUG 0
#endif
/* The build sets this where it compiles src/arch/portable/switch.c instead of a switch.S. */
#ifndef SENNIT_PORTABLE_SWITCH
#	define SENNIT_PORTABLE_SWITCH 0
#endif
/* The checked build, which finds code that waits while others need its thread: wait/checked.h. */
#ifndef SENNIT_CHECKED
#	define SENNIT_CHECKED 0
#endif

/* Prints "sennit: " and the message on stderr and aborts. For states that only a bug can reach. */
_Noreturn void sn_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * The program has made a mistake that no error code can report: as sn_fatal(), with the task at the
 * end of the line. SN_MISUSE() does this in debug builds; other builds continue.
 */
_Noreturn void sn_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define SN_MISUSE(...)                          \
	do {                                    \
		if (SENNIT_DEBUG)               \
			sn_misuse(__VA_ARGS__); \
	} while (0)

/* Prints "sennit: " and the message as one line on stderr. Preserves errno. */
void sn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Marks a moment between two steps of a protocol at which another thread's step would matter. Debug
 * builds pause there at random when the environment has SENNIT_RACE=1, so that stress tests reach
 * the rare interleavings.
 */
#if SENNIT_DEBUG
void sn_race_window(void);
#	define SN_RACE_WINDOW() sn_race_window()
#else
#	define SN_RACE_WINDOW() ((void)0)
#endif

#define SN_ASSERT(condition)                                                                 \
	do {                                                                                 \
		if (SENNIT_DEBUG && sn_unlikely(!(condition)))                               \
			sn_fatal("%s:%d: %s does not hold", __FILE__, __LINE__, #condition); \
	} while (0)

#endif
