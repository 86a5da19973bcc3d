/* SPDX-License-Identifier: MIT */
/*
 * The size classes of stacks, and the size of the system's pages.
 *
 * Contract. The size of a class is a power of two, and all stacks of a class are interchangeable.
 * Any thread may ask for a size at any time.
 *
 * Who may write what:
 *   the default class   sn_stack_set_default(), before the first thread of a run starts
 */
#ifndef SENNIT_STACK_STACK_SIZE_H
#define SENNIT_STACK_STACK_SIZE_H

#include <stddef.h>
#include <stdint.h>

#define SN_STACK_MIN_SIZE ((size_t)16 << 10)
#if UINTPTR_MAX > 0xffffffffu
/* musl's default for threads: enough for a resolver, a database client or a TLS library. */
#	define SN_STACK_DEFAULT_SIZE ((size_t)128 << 10)
#	define SN_STACK_MAX_SIZE ((size_t)1 << 30)
/* The first task often runs code that was written for the 8 MiB of main()'s stack. */
#	define SN_STACK_MAIN_SIZE ((size_t)8 << 20)
#else
#	define SN_STACK_DEFAULT_SIZE ((size_t)64 << 10)
#	define SN_STACK_MAX_SIZE ((size_t)64 << 20)
#	define SN_STACK_MAIN_SIZE ((size_t)1 << 20)
#endif

/* 16 KiB << class; 17 classes reach 1 GiB. */
#define SN_STACK_CLASSES 17

/* The usable bytes of a class. */
static inline size_t sn_stack_class_size(int class)
{
	return SN_STACK_MIN_SIZE << class;
}

/* The smallest class whose stacks have at least that size; -1 if the size is too large. */
int sn_stack_class(size_t size);

/* The class of tasks that ask for no size. */
void sn_stack_set_default(int class);
int sn_stack_default_class(void);

/* The size of the system's pages in bytes. */
size_t sn_page_size(void);

#endif
