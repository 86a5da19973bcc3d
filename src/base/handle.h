/* SPDX-License-Identifier: MIT */
/*
 * Handles of objects whose memory is reused only for others of their kind: tasks, scopes,
 * connections.
 *
 * A handle is the object's address with a tag, which is derived from the object's generation. The
 * thread that ends an object gives it the next generation before the memory can become another
 * object. A comparison of tag and generation therefore recognizes an old handle, and such a handle
 * reaches no other object. This requires that the memory stays readable, and that its generation
 * field is never used for anything else, until the process ends, or until the run ends where the
 * public header says so.
 *
 * The tag is in the low six bits, which are 0 in the address of every such object, and in 64-bit
 * processes also in the upper 16 bits. Those are 0 in all user addresses, unless the program asks
 * the kernel for others (on x86_64 with five levels of pages, and on aarch64 with 52 bits). A stale
 * handle thus matches again after 4 million generations, or after 63 in a 32-bit process. No
 * generation has the tag 0, because the runtime itself uses plain addresses.
 */
#ifndef SENNIT_BASE_HANDLE_H
#define SENNIT_BASE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#define SN_HANDLE_ALIGN 64
#define SN_HANDLE_LOW ((uintptr_t)SN_HANDLE_ALIGN - 1)

#if UINTPTR_MAX > UINT32_MAX
#	define SN_HANDLE_HIGH ((uintptr_t)0xffff << 48)
#else
#	define SN_HANDLE_HIGH ((uintptr_t)0)
#endif

static inline uintptr_t sn_handle_tag(uint32_t generation)
{
	return (generation & SN_HANDLE_LOW) | ((uint64_t)(generation >> 6) << 48 & SN_HANDLE_HIGH);
}

static inline uint32_t sn_handle_next(uint32_t generation)
{
	do {
		generation++;
	} while (sn_handle_tag(generation) == 0);
	return generation;
}

static inline void *sn_handle_make(const void *object, uint32_t generation)
{
	return (void *)((uintptr_t)object | sn_handle_tag(generation));
}

static inline void *sn_handle_object(const void *handle)
{
	return (void *)((uintptr_t)handle & ~(SN_HANDLE_LOW | SN_HANDLE_HIGH));
}

static inline bool sn_handle_fits(const void *handle, uint32_t generation)
{
	return ((uintptr_t)handle & (SN_HANDLE_LOW | SN_HANDLE_HIGH)) == sn_handle_tag(generation);
}

#endif
