/* SPDX-License-Identifier: MIT */
/*
 * What is given up when descriptors or memory have run out.
 *
 * Contract. Layers that keep descriptors for later use, such as free pipes, have a function that
 * gives them up. run/run.c has the list of these functions, so the code that meets the shortage
 * need not know which layer keeps what. They are called one after another, under no lock, by any
 * task, inside the runtime.
 *
 * Who may write what: sn_shortage_begin() writes the list, before the first task of a run.
 */
#ifndef SENNIT_IO_SHORTAGE_H
#define SENNIT_IO_SHORTAGE_H

#include <stddef.h>

typedef void sn_give_up(void);

/* A run begins. The caller keeps the list. */
void sn_shortage_begin(sn_give_up *const *list, size_t n);

/* Descriptors or memory have run out: makes every layer give up what it keeps for later. */
void sn_shortage_met(void);

#endif
