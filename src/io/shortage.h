/* SPDX-License-Identifier: MIT */
/*
 * What is given up when descriptors or memory have run out.
 *
 * Contract. Layers that keep descriptors for later use, such as free pipes, have a function that
 * gives them up. run/run.c has the list of them, so whoever meets the shortage need not know who
 * keeps what. They are called one after another, under no lock, by any task, inside the runtime.
 *
 * Who may write what: the list, sn_shortage_begin(), before the first task of a run.
 */
#ifndef SENNIT_IO_SHORTAGE_H
#define SENNIT_IO_SHORTAGE_H

#include <stddef.h>

typedef void sn_give_up(void);

/* A run begins. The list stays the caller's. */
void sn_shortage_begin(sn_give_up *const *list, size_t n);

/* Descriptors or memory have run out: has all that is kept for later given up. */
void sn_shortage_met(void);

#endif
